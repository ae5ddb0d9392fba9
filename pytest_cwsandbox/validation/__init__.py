"""Validation: is this reward function fit for training?"""
