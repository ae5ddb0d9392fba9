"""Entry points that train: ``python -m pytest_cwsandbox.trainers.trl`` and ``.art``.

Importing this room imports no trainer.
"""
