"""What both evals and tests need."""

pytest_plugins = ["pytester"]
