"""Optimizers that apply gradients summed over the workers, as on one worker.

In a step of `fit`, the tape has summed them (gradients.py). In a custom training loop, the
optimizer sums them before it clips, scales or accumulates them.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from helpers.i18n import join_items, ngettext
from helpers.keras_3.gradients import weighted_sum
from helpers.keras_3.scopes import user_frame
from helpers.keras_3.step import has_one_device, is_collective, is_multi_worker, running
from helpers.keras_3.tensors import key, scaled


class _Applying:
    """Whether the gradients that an optimizer now processes were summed on entry."""

    summed = False


def install() -> None:
    """Replaces methods of Keras's optimizers."""
    optimizers: Any = importlib.import_module("keras.src.backend.tensorflow.optimizer")
    scaling: Any = importlib.import_module("keras.src.optimizers.loss_scale_optimizer")
    optimizer, scaling_one = optimizers.TFOptimizer, scaling.LossScaleOptimizer
    optimizer._backend_apply_gradients = summed_first(optimizer._backend_apply_gradients)
    optimizer.__init__ = _with_own_methods_wrapped(optimizer.__init__)
    scaling_one.check_finite = on_all_workers(scaling_one.check_finite)


def summed_first(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `_backend_apply_gradients`: sums the workers' gradients before the optimizer acts.

    Keras sums them last. So it clips each worker's share, and it accumulates gradients in a branch
    of the graph, in which a worker cannot wait for another.
    """

    @functools.wraps(apply)
    def backend_apply_gradients(self: Any, grads: Any, trainable_variables: Any) -> Any:
        import tensorflow as tf

        context, strategy = tf.distribute.get_replica_context(), tf.distribute.get_strategy()
        if context is None or not is_collective(strategy) or not has_one_device(strategy):
            return apply(self, grads, trainable_variables)
        summed = _sum_remaining(context, list(grads), list(trainable_variables))

        def update(_strategy: Any, gradients: Any) -> None:
            with _without_merge_call(strategy):
                apply(self, gradients, trainable_variables)

        return context.merge_call(update, args=(summed,))

    return backend_apply_gradients


def _sum_remaining(context: Any, gradients: list[Any], variables: Sequence[Any]) -> list[Any]:
    """Sums the gradients that have not been summed yet, one per variable."""
    import tensorflow as tf

    step = running()
    if _Applying.summed:
        return gradients
    if step is None:
        return list(context.all_reduce(tf.distribute.ReduceOp.SUM, gradients))
    places = [
        place
        for place, (gradient, variable) in enumerate(zip(gradients, variables, strict=True))
        if gradient is not None and key(variable) not in step.summed
    ]
    if places:
        _warn_of_late_sum([variables[place] for place in places])
        late = [scaled(gradients[place], step.share()) for place in places]
        for place, gradient in zip(places, weighted_sum(step, late, False), strict=True):
            gradients[place] = gradient
    return gradients


def _warn_of_late_sum(variables: Sequence[Any]) -> None:
    """Warns of the program line that applies gradients not computed by a tape."""
    file, line = user_frame()
    step = running()
    assert step is not None
    message = ngettext(
        "{place}: the gradients of {names} were not computed by GradientTape.gradient, so they are "
        "summed over the workers only when they are applied. If the program changes them before, "
        "for example by clipping, the results of {count} worker differ from the results of one "
        "worker.",
        "{place}: the gradients of {names} were not computed by GradientTape.gradient, so they are "
        "summed over the workers only when they are applied. If the program changes them before, "
        "for example by clipping, the results of {count} workers differ from the results of one "
        "worker.",
        step.workers,
    )
    names = join_items(str(getattr(v, "path", v.name)) for v in variables)
    text = message.format(place=f"{file}:{line}", names=names, count=step.workers)
    warnings.warn_explicit(text, UserWarning, file, line)


def _with_own_methods_wrapped(init: Callable[..., None]) -> Callable[..., None]:
    """Wraps `TFOptimizer.__init__`: a subclass's own `apply` receives summed gradients.

    This matters if no tape of a step has summed them, as in a custom training loop.
    """

    @functools.wraps(init)
    def initialize(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        for owner in type(self).__mro__:
            for name in ("apply", "apply_gradients"):
                method = owner.__dict__.get(name)
                if method and not owner.__module__.startswith("keras.") and _is_plain(method):
                    setattr(owner, name, _summed_on_entry(method, name))

    return initialize


def _is_plain(method: Any) -> bool:
    return not hasattr(method, "sums_gradients")


def _summed_on_entry(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wraps a method of a custom optimizer so that its gradients are summed over the workers."""

    @functools.wraps(method)
    def apply(self: Any, grads: Any, *args: Any, **options: Any) -> Any:
        import tensorflow as tf

        context, strategy = tf.distribute.get_replica_context(), tf.distribute.get_strategy()
        apart = is_multi_worker(strategy) and has_one_device(strategy) and context is not None
        if not apart or _Applying.summed:
            return method(self, grads, *args, **options)
        given = list(grads)
        if name == "apply":
            variables = args[0] if args else options.get("trainable_variables")
            variables = list(self._trainable_variables if variables is None else variables)
            given = _sum_remaining(context, given, variables)
        else:
            values, variables = (list(part) for part in zip(*given, strict=True))
            values = _sum_remaining(context, values, variables)
            given = list(zip(values, variables, strict=True))
        _Applying.summed = True
        try:
            return method(self, given, *args, **options)
        finally:
            _Applying.summed = False

    apply.sums_gradients = True  # type: ignore[attr-defined]
    return apply


def on_all_workers(check: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `LossScaleOptimizer.check_finite`: checks the gradients of all workers.

    Keras assumes that they are summed. If one worker's gradients are not finite and have not been
    summed, that worker would skip a step for which its peers wait.
    """

    @functools.wraps(check)
    def check_finite(self: Any, grads: Any) -> Any:
        import tensorflow as tf

        finite, context = check(self, grads), tf.distribute.get_replica_context()
        step = running()
        if context is None or not is_multi_worker(context.strategy):
            return finite
        if _Applying.summed or (step is not None and step.summed):
            return finite
        bad = tf.cast(tf.logical_not(finite), tf.float32)
        return tf.equal(context.all_reduce(tf.distribute.ReduceOp.SUM, bad), 0.0)

    return check_finite


@contextmanager
def _without_merge_call(strategy: Any) -> Iterator[None]:
    """Makes optimizers act as if the replicas had already been merged."""
    extended = strategy.extended
    extended._use_merge_call = lambda: False
    try:
        yield
    finally:
        del extended._use_merge_call
