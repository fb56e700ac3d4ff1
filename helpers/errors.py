"""The errors that a reader can meet.

    HelpersError
    ├── ConfigError        a TF_CONFIG, a parameter or a choice that cannot work
    │   ├── PackageError       the installed packages do not match (also an ImportError)
    │   └── PlatformError      the lessons do not run on the operating system (likewise)
    ├── DataError          a dataset that is missing, damaged or of the wrong shape
    └── ClusterError       a group of processes that did not finish its work
        ├── UserCodeError      the reader's own function raised, and nothing is restarted
        └── StoppedError       the reader called stop(), or interrupted the kernel

Every message describes the problem, the value found, and the solution.
"""

from __future__ import annotations

from collections.abc import Iterable

from helpers.i18n import _, join_items


class HelpersError(Exception):
    """Any error that this package raises intentionally."""


class ConfigError(HelpersError, ValueError):
    """A TF_CONFIG, a parameter or a choice that cannot work."""


class PackageError(ConfigError, ImportError):
    """The installed packages do not match, or were imported in the wrong order."""


class PlatformError(ConfigError, ImportError):
    """The lessons do not run on the operating system."""


class DataError(HelpersError):
    """A dataset that is missing, damaged or of the wrong shape."""


class ClusterError(HelpersError, RuntimeError):
    """A group of processes that did not finish its work.

    Attributes:
      reason: the failure alone, without its consequences; by default the whole message.
    """

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


class UserCodeError(ClusterError):
    """A function of the reader raised in a worker, and a restart would not fix it.

    Attributes:
      task: the task it happened in, as ``"worker 1"``.
      traceback: the traceback as the worker printed it.
      exception_type: the name of the exception's class, as ``"ValueError"``.
    """

    def __init__(self, message: str, *, task: str, traceback: str, exception_type: str) -> None:
        super().__init__(message)
        self.task = task
        self.traceback = traceback
        self.exception_type = exception_type


class StoppedError(ClusterError):
    """The run was stopped before it finished."""


def unknown_choice(name: str, value: object, allowed: Iterable[object]) -> ConfigError:
    """The error for a parameter `name` whose `value` is none of `allowed`."""
    message = _("{name}={value!r} is unknown. Choose one of {allowed}.")
    return ConfigError(
        message.format(name=name, value=value, allowed=join_items(map(str, allowed)))
    )


def not_installed(package: str, requirement: str) -> PackageError:
    """The error for a missing optional `package`, with the `requirement` for pip."""
    message = _("{package} is not installed. Install it: {command}")
    return PackageError(message.format(package=package, command=f'pip install "{requirement}"'))


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raises ConfigError unless the `value` of parameter `name` is a whole number >= `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        message = _("{name}={value!r} must be a whole number of at least {least}.")
        raise ConfigError(message.format(name=name, value=value, least=least))


def check_seconds(name: str, value: object) -> None:
    """Raises ConfigError unless the `value` of parameter `name` is a number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:  # or NaN
        message = _("{name}={value!r} must be a number of seconds above 0.")
        raise ConfigError(message.format(name=name, value=value))
