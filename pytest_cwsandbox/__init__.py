"""A pytest plugin and evaluation harness for agent rewards."""

__version__ = "0.1.0"
