"""Errors of a worker, and the errors that the notebook raises for them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from helpers.errors import ConfigError, DataError, HelpersError, PackageError, UserCodeError
from helpers.protocol.failures import error_fields, to_exception, user_traceback


def passed_on(error: Exception) -> HelpersError:
    """The error that the notebook raises for an error of a worker."""
    try:
        raise error
    except Exception as raised:
        return to_exception("worker 1", error_fields(raised))


@pytest.mark.parametrize("kind", [ConfigError, PackageError, DataError])
def test_an_error_of_ours_is_raised_again_as_it_was(kind: type[HelpersError]) -> None:
    error = passed_on(kind("What happened, and what to do."))
    assert type(error) is kind
    assert str(error) == "What happened, and what to do."


def test_a_readers_error_of_the_same_name_keeps_its_traceback() -> None:
    readers = type("DataError", (Exception,), {})
    error = passed_on(readers("no such column"))
    assert isinstance(error, UserCodeError)
    assert error.exception_type == "DataError" and error.task == "worker 1"
    assert "Traceback in the worker" in error.traceback


def test_an_error_that_is_derived_from_ours_keeps_its_traceback() -> None:
    derived = type("MyChoice", (ConfigError,), {})
    assert isinstance(passed_on(derived("not this")), UserCodeError)


def test_the_kind_of_an_error_is_said_once() -> None:
    class Rewritten(TypeError):
        """Like an error raised by AutoGraph."""

    def describe_with(cause: str) -> str:
        error = Rewritten("in user code: …")
        error.ag_error_metadata = SimpleNamespace(  # type: ignore[attr-defined]
            cause_message=cause, translated_stack=[]
        )
        error.__class__.__name__ = "TypeError"
        return str(error_fields(error)["message"])

    assert describe_with("TypeError: no such thing") == "no such thing"
    assert describe_with("no such thing") == "no such thing"
    shown = user_traceback(error_fields(TypeError("no")) | {"frames": []})
    assert shown.count("TypeError: ") == 1


def test_an_exception_without_a_message_is_shown_without_a_colon() -> None:
    assert user_traceback(error_fields(KeyboardInterrupt())).endswith("\nKeyboardInterrupt")


class Hostile(Exception):
    """An exception of which no attribute can be read."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


def test_an_exception_whose_attributes_raise_is_reported_with_its_lines() -> None:
    try:
        raise Hostile
    except Hostile as error:
        fields = error_fields(error)
    assert fields["type"] == "Hostile"
    assert "RuntimeError" in fields["message"]
    assert [frame[0] for frame in fields["frames"]] == [__file__]
    assert not fields["retryable"]
