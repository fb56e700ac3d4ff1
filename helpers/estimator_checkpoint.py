"""Loads the weights of an Estimator's checkpoint into a Keras model."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.i18n import _, join_items

_PART = re.compile(r"(.*?)(?:_(\d+))?")  # Keras numbers its layers: dense, dense_1, dense_2

Shapes = Mapping[str, list[int]]


class _Fit(NamedTuple):
    """The match between a model's variables and a checkpoint's variables under one scope."""

    scope: str
    pairs: dict[str, str]  # from the model's to the checkpoint's
    missing: list[str]


def load_estimator_weights(
    model: tf.keras.Model, checkpoint: str | Path, scope: str | None = None
) -> list[str]:
    """Loads the weights that an Estimator has saved into a Keras model.

    Variables are matched by name, without the number that Keras appends to a layer's name. The
    second of the checkpoint's `dense/kernel` and `dense_1/kernel` is the second of the model's
    `dense_4/kernel` and `dense_5/kernel`. The model changes only if all names and shapes match.

    Args:
      model: the same network in Keras 2 or Keras 3, built.
      checkpoint: the `model_dir` of the Estimator, whose last checkpoint is read, or the path of
        one checkpoint, as "model/model.ckpt-1200".
      scope: the name scope of the network in the checkpoint, as "sequential". It is found
        automatically if only one matches.

    Returns:
      The names of the variables that the model does not have: the step and the optimizer's state.

    Raises:
      ConfigError: there is no checkpoint, or it does not match the model, or it matches twice.
    """
    path = _path(checkpoint)
    saved: Shapes = dict(tf.train.list_variables(path))
    weights = {_name(weight, model): weight for weight in _weights(model)}
    if scope is None:
        scope = _find_scope(path, saved, weights)
    fit = _fit(scope, saved, weights)
    if fit.missing:
        raise _missing(path, fit, saved)
    for name, source in fit.pairs.items():
        if list(weights[name].shape) != saved[source]:
            raise _wrong_shape(path, source, saved[source], name, list(weights[name].shape))
    reader = tf.train.load_checkpoint(path)
    for name, source in fit.pairs.items():
        weights[name].assign(reader.get_tensor(source))
    return sorted(set(saved) - set(fit.pairs.values()))


def _path(checkpoint: str | Path) -> str:
    """The path of the checkpoint, without the ending of its files."""
    path = tf.train.latest_checkpoint(str(checkpoint)) or str(checkpoint)
    if not tf.io.gfile.exists(f"{path}.index"):
        message = _(
            "{folder} contains no checkpoint. Pass the model_dir of an Estimator that has trained."
        )
        raise ConfigError(message.format(folder=checkpoint))
    return path


def _weights(model: tf.keras.Model) -> list[tf.Variable]:
    weights = list(model.weights) if model.built else []
    if not weights:
        message = _("{model!r} has no weights yet. Call build with its input shape first.")
        raise ConfigError(message.format(model=model.name))
    return weights


def _name(weight: Any, model: tf.keras.Model) -> str:
    """As "dense/kernel", which in Keras 3 is in the path, after the model's name."""
    name: str = getattr(weight, "path", weight.name)
    return name.partition(":")[0].removeprefix(f"{model.name}/")


def _find_scope(path: str, saved: Shapes, weights: Mapping[str, tf.Variable]) -> str:
    """The only scope in which everything matches, or else the scope with most matches."""
    fits = [_fit(scope, saved, weights) for scope in _scopes(saved, weights)]
    whole = [
        fit.scope
        for fit in fits
        if not fit.missing
        and all(list(weights[name].shape) == saved[source] for name, source in fit.pairs.items())
    ]
    if len(whole) > 1:
        message = _("{path} fits the model in several scopes: {scopes}. Pass one as scope=.")
        raise ConfigError(message.format(path=path, scopes=join_items(map(repr, whole))))
    return whole[0] if whole else min(fits, key=lambda fit: len(fit.missing)).scope


def _scopes(saved: Shapes, weights: Iterable[str]) -> list[str]:
    """The scopes in which any variable of the checkpoint is named like one of the model."""
    keys = {_key(name)[0] for name in weights}
    scopes = {""}
    for name in saved:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            if _key("/".join(parts[depth:]))[0] in keys:
                scopes.add("/".join(parts[:depth]))
    return sorted(scopes)


def _fit(scope: str, saved: Shapes, weights: Iterable[str]) -> _Fit:
    inside = scope and f"{scope}/"
    found = _groups(name.removeprefix(inside) for name in saved if name.startswith(inside))
    pairs: dict[str, str] = {}
    missing: list[str] = []
    for key, names in _groups(weights).items():
        if len(found[key]) == len(names):
            sources = (inside + name for name in found[key])
            pairs.update(zip(names, sources, strict=True))
        else:
            missing.extend(names)
    return _Fit(scope, pairs, missing)


def _groups(names: Iterable[str]) -> defaultdict[str, list[str]]:
    """Groups names that differ only in numbers, in the order of the numbers."""
    groups = defaultdict(list)
    for name in sorted(names, key=_key):
        groups[_key(name)[0]].append(name)
    return groups


def _key(name: str) -> tuple[str, list[int]]:
    """A name without numbers, and the numbers: ("block/dense/kernel", [1, 4, 0])."""
    parts = [match.groups() for part in name.split("/") if (match := _PART.fullmatch(part))]
    return "/".join(base for base, _number in parts), [int(number or 0) for _base, number in parts]


def _missing(path: str, fit: _Fit, saved: Shapes) -> ConfigError:
    message = _(
        "{path} does not have as many variables like {names} as the model. Possible matches: "
        "{found}. Build the network that the Estimator trained, with layers of the same names."
    )
    endings = {name.rpartition("/")[2] for name in fit.missing}
    alike = sorted(name for name in saved if name.rpartition("/")[2] in endings)
    if not alike:
        message = _(
            "{path} does not have as many variables like {names} as the model, and no possible "
            "matches. Build the network that the Estimator trained, with layers of the same names."
        )
    names, found = join_items(fit.missing), join_items(alike)
    return ConfigError(message.format(path=path, names=names, found=found))


def _wrong_shape(
    path: str, source: str, saved: list[int], name: str, shape: list[int]
) -> ConfigError:
    message = _(
        "{source} in {path} has the shape {saved}, and {name} of the model {shape}. Build the "
        "network that the Estimator trained."
    )
    return ConfigError(
        message.format(source=source, path=path, saved=saved, name=name, shape=shape)
    )
