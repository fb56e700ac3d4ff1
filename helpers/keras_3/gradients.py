"""Sums gradients over the workers before the program's code changes them.

Keras sums them last, when the optimizer applies them. So a program that clips, normalizes or adds
noise in `train_step` or in a custom optimizer would change each worker's share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from helpers.keras_3.step import Step, current
from helpers.keras_3.tensors import divided, is_variable, key


def install() -> None:
    """Replaces methods of TensorFlow's GradientTape."""
    import tensorflow as tf

    tape = tf.GradientTape
    tape.gradient = summed_by_tape(tape.gradient)
    tape.jacobian = _of_this_part(tape.jacobian)
    tape.batch_jacobian = _of_this_part(tape.batch_jacobian)


def summed_by_tape(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `GradientTape.gradient`: in a step, gradients of weights are the global gradients."""

    @functools.wraps(gradient)
    def global_gradient(
        self: Any, target: Any, sources: Any, output_gradients: Any = None, **options: Any
    ) -> Any:
        import tensorflow as tf

        step, flat = current(), tf.nest.flatten(sources)
        if step is None or not any(map(_learns, flat)):
            return gradient(self, target, sources, output_gradients, **options)
        targets = tf.nest.flatten(target)
        seeds, weight = _seeds(step, targets, output_gradients)
        found = gradient(self, targets, flat, seeds, **options)
        return tf.nest.pack_sequence_as(sources, _sum_learning(step, flat, found, weight))

    return global_gradient


def _of_this_part(jacobian: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `GradientTape.jacobian`, which computes the gradient of one example after another.

    It does so in a loop of the graph, in which a worker cannot wait for another.
    """

    @functools.wraps(jacobian)
    def jacobian_of_this_part(*args: Any, **options: Any) -> Any:
        step = current()
        if step is None:
            return jacobian(*args, **options)
        return step.globally(jacobian, *args, **options)

    return jacobian_of_this_part


def _learns(source: Any) -> bool:
    """Whether a tape's source is a trainable weight."""
    return is_variable(source) and bool(source.trainable)


def _seeds(step: Step, targets: Sequence[Any], given: Any) -> tuple[list[Any], Any]:
    """The starting values of backpropagation, and the weight of a mean over this part.

    A scalar is a mean over the part, weighted by the part's size. For any other tensor, the
    gradient is the gradient of its sum, as on one worker. Weights in half precision would overflow.
    """
    import tensorflow as tf

    outer = [None] * len(targets) if given is None else tf.nest.flatten(given)
    scalars = [target.shape.rank == 0 for target in targets]
    weight = step.size if all(scalars) and not _is_half(step.model) else None
    if weight is None and any(scalars):
        weight = step.share()
    factor = 1.0 if weight is None else weight
    seeds = []
    for target, scalar, start in zip(targets, scalars, outer, strict=True):
        seed = tf.ones_like(target) if start is None else tf.convert_to_tensor(start)
        seeds.append(seed * tf.cast(factor, seed.dtype) if scalar else seed)
    return seeds, weight


def _is_half(model: Any) -> bool:
    """Whether a model computes in float16."""
    return any(layer.compute_dtype == "float16" for layer in model._flatten_layers())


def _sum_learning(
    step: Step, sources: Sequence[Any], gradients: Sequence[Any], weight: Any
) -> list[Any]:
    """Sums gradients of trainable weights, and returns the others as means over this part."""
    import tensorflow as tf

    results = list(gradients)
    places = [i for i, g in enumerate(gradients) if g is not None and _learns(sources[i])]
    sums = weighted_sum(step, [gradients[place] for place in places], weight is step.size)
    for place, total in zip(places, sums, strict=True):
        results[place] = total
    for place, gradient in enumerate(gradients):
        if weight is not None and gradient is not None and not _learns(sources[place]):
            results[place] = tf.math.divide_no_nan(gradient, tf.cast(weight, gradient.dtype))
    step.summed |= {key(source) for source in sources if _learns(source)}
    return results


def weighted_sum(step: Step, gradients: Sequence[Any], by_size: bool) -> list[Any]:
    """Sums over the workers. If the gradients are weighted by size, it also sums the sizes."""
    import tensorflow as tf

    if not gradients:
        return []
    gradients = _zero_if_empty(step, gradients)
    context = tf.distribute.get_replica_context()
    if not by_size:
        return list(context.all_reduce(tf.distribute.ReduceOp.SUM, gradients))
    kind = next((g.dtype for g in gradients if isinstance(g, tf.Tensor)), tf.float32)
    size = tf.cast(step.size, kind)
    *sums, total = context.all_reduce(tf.distribute.ReduceOp.SUM, [*gradients, size])
    total = tf.stop_gradient(total)
    step.remember(tf.cast(total, tf.float32))
    return [divided(gradient, total) for gradient in sums]


def _zero_if_empty(step: Step, gradients: Sequence[Any]) -> list[Any]:
    """Zeros if this part is empty, because the gradient of a mean over nothing is NaN."""
    import tensorflow as tf

    results = list(gradients)
    dense = [i for i, g in enumerate(gradients) if not isinstance(g, tf.IndexedSlices)]
    if dense:
        values = [gradients[i] for i in dense]
        chosen = tf.cond(step.size > 0, lambda: values, lambda: [tf.zeros_like(v) for v in values])
        for place, value in zip(dense, chosen, strict=True):
            value.set_shape(gradients[place].shape)
            results[place] = value
    return results
