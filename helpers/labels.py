"""The numbers of a training run in words, the same in all places that show them."""

from __future__ import annotations

from helpers.i18n import _, ngettext, number


def workers(count: int) -> str:
    """How many workers."""
    return ngettext("{count} worker", "{count} workers", count).format(count=count)


def batches(count: int) -> str:
    """How many batches."""
    return ngettext("{count} batch", "{count} batches", count).format(count=count)


def step_label(step: int, total: int) -> str:
    """The progress of a training run."""
    return _("step {step} of {total}").format(step=step, total=total)


def loss(value: float) -> str:
    """A loss."""
    return _("loss {loss}").format(loss=number(value, ".3f"))


def throughput_label(examples_per_second: float) -> str:
    """A speed."""
    return _("{count} examples/s").format(count=number(examples_per_second, ",.0f"))


def format_bytes(size: float) -> str:
    """So many bytes, in the unit that suits them."""
    if size < 1e5:
        return _("{size} kB").format(size=number(size / 1e3, ".1f"))
    return _("{size} MB").format(size=number(size / 1e6, ".1f"))


def variables(size: float) -> str:
    """How many bytes of variables lie in one place."""
    return _("variables: {amount}").format(amount=format_bytes(size)) if size else _("no variables")


def accuracy(share: float, spec: str = ".4f") -> str:
    """An accuracy, given as a share of 1, in the form that a place has room for."""
    return _("accuracy {accuracy}").format(accuracy=number(share, spec))
