"""Which arguments the functions of a job get."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from helpers.errors import ConfigError
from helpers.protocol.job import FunctionJob, takes_context


def no_parameters() -> None:
    """Takes nothing."""


def rate_and_epochs(rate: float, epochs: int = 1) -> None:
    """Takes two arguments of the reader."""


def context_and_rate(context: object, rate: float) -> None:
    """Takes the context and an argument of the reader."""


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "wanted"),
    [
        (no_parameters, (), {}, False),
        (rate_and_epochs, (0.1,), {}, False),
        (rate_and_epochs, (0.1, 2), {}, False),
        (rate_and_epochs, (), {"epochs": 2, "rate": 0.1}, False),
        (rate_and_epochs, (), {"epochs": 2}, True),  # its only required argument is the context
        (context_and_rate, (0.1,), {}, True),
        (context_and_rate, (), {"rate": 0.1}, True),
        (functools.partial(context_and_rate, rate=0.1), (), {}, True),
        (lambda *args: None, (1, 2), {}, False),
        (min, (1, 2), {}, False),
    ],
)
def test_the_context_is_passed_if_one_more_argument_is_required(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], wanted: bool
) -> None:
    assert takes_context(function, *args, **kwargs) is wanted


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((1, 2, 3), {}, r"rate_and_epochs\(rate, epochs=1\) cannot be called with .* \(1, 2, 3\)"),
        ((), {"learning_rate": 0.1}, r"arguments \(learning_rate=0\.1\)"),
        ((list(range(10**6)), 1, 2), {}, r"arguments \(\[0, 1, 2, 3, 4, 5, \.\.\.\], 1, 2\)"),
    ],
)
def test_wrong_arguments_are_rejected_before_a_worker_starts(
    args: tuple[Any, ...], kwargs: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        FunctionJob(rate_and_epochs, args=args, kwargs=kwargs)
