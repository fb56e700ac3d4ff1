"""The labels of a training run's numbers, which are the same everywhere."""

from __future__ import annotations

from helpers.i18n import _, ngettext, number


def workers(count: int) -> str:
    """The number of workers."""
    return ngettext("{count} worker", "{count} workers", count).format(count=count)


def batches(count: int) -> str:
    """The number of batches."""
    return ngettext("{count} batch", "{count} batches", count).format(count=count)


def steps(count: int) -> str:
    """How many steps."""
    return ngettext("{count} step", "{count} steps", count).format(count=count)


def examples(count: int) -> str:
    """How many examples."""
    return ngettext("{count} example", "{count} examples", count).format(count=count)


def epochs(count: int) -> str:
    """How many epochs."""
    return ngettext("{count} epoch", "{count} epochs", count).format(count=count)


def replicas(count: int) -> str:
    """How many replicas."""
    return ngettext("{count} replica", "{count} replicas", count).format(count=count)


def files(count: int) -> str:
    """How many files."""
    return ngettext("{count} file", "{count} files", count).format(count=count)


def times(count: int) -> str:
    """How often something happened."""
    return ngettext("{count} time", "{count} times", count).format(count=count)


def starts(count: int) -> str:
    """How often something was started."""
    return ngettext("{count} start", "{count} starts", count).format(count=count)


def task(name: object) -> str:
    """A task in the language in use.

    Args:
      name: the task, or its English name, such as "worker 1". Any other text is returned unchanged.
    """
    job, _space, index = str(name).rpartition(" ")
    messages = {
        "chief": _("chief {number}"),
        "worker": _("worker {number}"),
        "ps": _("ps {number}"),
        "evaluator": _("evaluator {number}"),
    }
    return messages[job].format(number=index) if job in messages else str(name)


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
    """A number of bytes, in a suitable unit."""
    if size < 1e5:
        return _("{size} kB").format(size=number(size / 1e3, ".1f"))
    return _("{size} MB").format(size=number(size / 1e6, ".1f"))


def variables(size: float) -> str:
    """The number of bytes of variables that are stored in one place."""
    return _("variables: {amount}").format(amount=format_bytes(size)) if size else _("no variables")


def accuracy(share: float, spec: str = ".4f") -> str:
    """An accuracy between 0 and 1, in the format `spec`."""
    return _("accuracy {accuracy}").format(accuracy=number(share, spec))
