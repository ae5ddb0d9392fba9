"""What can go wrong, as a tree.

HarnessError
├── UserError                the user can mend it: the message names what and the remedy
│   ├── ProblemFileError     a row or file of problems or completions that cannot be used
│   ├── ConfigurationError   a problem that cannot be graded, such as one without tests
│   ├── BackendError         no sandbox backend can be had: credentials, host, isolation
│   └── EndpointError        the model's endpoint refuses every request: key, model, settings
├── ContextExceededError     a conversation has outgrown the model's context: the model's doing
└── InfrastructureError      the sandbox service failed; it says nothing about the graded program
    └── ModelError           the model's endpoint failed; it says nothing about the model
"""

from __future__ import annotations


class HarnessError(Exception):
    """Base of everything that this package raises."""


class UserError(HarnessError):
    """One line that names what is wrong and the remedy; shown without a traceback."""


class ProblemFileError(UserError):
    """A file of problems or completions that cannot be read, named by file, line and field."""


class ConfigurationError(UserError):
    """A problem or setting that makes a grade meaningless, such as a problem without tests."""


class BackendError(UserError):
    """No sandbox backend can be had; the message says why and what to do."""


class InfrastructureError(HarnessError):
    """The sandbox service failed after every retry; never a reward, never the model's doing."""


class EndpointError(UserError):
    """The model's endpoint refuses every request; the message names the setting to mend."""


class ContextExceededError(HarnessError):
    """A conversation has outgrown the model's context."""


class ModelError(InfrastructureError):
    """The model's endpoint failed after every retry, or its answer could not be read."""


def check_count(name: str, value: object, *, at_least: int) -> None:
    """Raise ``ConfigurationError`` for an argument that is no whole number, or too small a one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ConfigurationError(f"{name} must be a whole number from {at_least}, got {value!r}")


def one_line(error: BaseException) -> str:
    """The error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__
