"""Checks that the workers have equal weights and state."""

from __future__ import annotations

import hashlib
import importlib
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from helpers.i18n import _, join_sentences, ngettext, number
from helpers.keras_3.agreement import DifferentWeightsError, Group

TOLERANCE = 1e-4  # relative to a variable's norm, because processors round differently
NAMED = 5  # the maximum number of variables whose values are compared

Fingerprint = dict[str, int]
"""The checksum of each variable, by its path."""


def fingerprint(model: Any, whole: bool) -> Fingerprint:
    """A summary of the model's weights and state, and of its optimizer's counters.

    Args:
      whole: whether to include all of the optimizer's variables, and not only its scalars.
    """
    return {path: zlib.crc32(array.tobytes()) for path, array in _arrays(model, whole)}


def digest(checksums: Mapping[str, int]) -> str:
    """A short text that represents all checksums."""
    return hashlib.blake2b(repr(sorted(checksums.items())).encode(), digest_size=8).hexdigest()


def compare(group: Group, model: Any, stage: str, text: str, **facts: Any) -> list[dict[str, Any]]:
    """Agrees on `stage`, and checks that all workers have the same variables.

    Raises:
      DifferentWeightsError: they differ. The message names the variable and two workers.
    """
    whole = stage == "start"
    checksums = fingerprint(model, whole)
    positions = group.agree(stage, text, digest=digest(checksums), **facts)
    if len({position["digest"] for position in positions}) == 1:
        return positions
    alike = group.agree("checksums", text, checksums=checksums)
    differing = _differing([position["checksums"] for position in alike])
    summaries = group.agree("variables", text, variables=_summaries(model, whole, differing))
    message = _message(group, stage, facts, [p["variables"] for p in summaries], differing)
    if message:
        raise DifferentWeightsError(message)
    return positions


def _differing(checksums: Sequence[Mapping[str, int]]) -> list[str]:
    paths = dict.fromkeys(path for found in checksums for path in found)
    return [path for path in paths if len({found.get(path) for found in checksums}) > 1]


def _summaries(model: Any, whole: bool, paths: Sequence[str]) -> dict[str, list[float]]:
    """The mean, the norm and a product with a fixed random vector, for each variable."""
    import numpy as np

    found, wanted = {}, set(paths[:NAMED])
    for path, array in _arrays(model, whole):
        if path in wanted:
            numbers = np.asarray(array, "float64").ravel()
            vector = np.random.default_rng(0).standard_normal(numbers.size)
            mean = float(numbers.mean()) if numbers.size else 0.0
            found[path] = [mean, float(np.linalg.norm(numbers)), float(numbers @ vector)]
    return found


def _message(
    group: Group,
    stage: str,
    facts: Mapping[str, Any],
    variables: Sequence[Mapping[str, Sequence[float]]],
    differing: Sequence[str],
) -> str:
    for path in differing[:NAMED]:
        for index in range(1, group.size):
            one, other = variables[0].get(path), variables[index].get(path)
            if one is not None and other is not None and not _apart(one, other):
                continue
            details = ngettext(
                "{variable} is {one} on {first} and {other} on {second} (means; {count} variable "
                "differs)",
                "{variable} is {one} on {first} and {other} on {second} (means; {count} variables "
                "differ)",
                len(differing),
            ).format(
                variable=path,
                one=_mean(one),
                other=_mean(other),
                first=group.names[0],
                second=group.names[index],
                count=len(differing),
            )
            advice = _(
                "Load weights on all workers, and change variables in the same way on all of "
                "them; state that a "
                'layer assigns in call() needs aggregation="mean" in add_weight.'
            )
            return join_sentences([_finding(group, stage, facts, details), advice])
    return ""


def _finding(group: Group, stage: str, facts: Mapping[str, Any], details: str) -> str:
    """The sentence that says where the weights differ, and how."""
    values = {"call": group.calls[-1].text if group.calls else "?", "details": details}
    match stage:
        case "start":
            message = _("The workers have different weights at the start of {call}: {details}.")
        case "epoch":
            message = _(
                "The workers have different weights at the end of epoch {epoch} of {call}: "
                "{details}."
            )
            values["epoch"] = str(facts["epoch"] + 1)
        case _check:
            message = _("The workers have different weights at step {step} of {call}: {details}.")
            values["step"] = str(facts["steps"])
    return message.format(**values)


def _mean(summary: Sequence[float] | None) -> str:
    return _("missing") if summary is None else number(summary[0], ".6g")


def _apart(one: Sequence[float], other: Sequence[float]) -> bool:
    scale = TOLERANCE * (one[1] + other[1])
    if math.isnan(scale):  # NaN in both counts as equal
        return math.isnan(one[1]) != math.isnan(other[1])
    return abs(one[2] - other[2]) > scale or abs(one[1] - other[1]) > scale


def _arrays(model: Any, whole: bool) -> Iterator[tuple[str, Any]]:
    own = _of_each_worker(model)
    counts: dict[str, int] = {}
    variables = [(v, whole) for v in getattr(model.optimizer, "variables", ())]
    variables += [(v, True) for v in model.weights]  # last, because they depend on a learning rate
    seen = set()
    for variable, large in variables:
        if id(variable) in own or id(variable) in seen or (not large and _size(variable) > 1):
            continue
        seen.add(id(variable))
        if type(variable.value).__name__ == "SyncOnReadVariable":  # a read needs a collective
            continue
        path = variable.path
        counts[path] = counts.get(path, -1) + 1
        name = f"{path} ({counts[path]})" if counts[path] else path
        yield name, variable.numpy()


def _size(variable: Any) -> int:
    size = 1
    for length in variable.shape:
        size *= length or 0
    return size


def _of_each_worker(model: Any) -> set[int]:
    """States of stateful recurrent layers, which depend on a worker's own examples."""
    tree: Any = importlib.import_module("keras.src.tree")
    layers = [layer for layer in model._flatten_layers() if getattr(layer, "stateful", False)]
    states = [getattr(layer, "states", None) for layer in layers]
    return {id(state) for state in tree.flatten(states) if state is not None}
