"""The memory of a worker in a training step, by the sizes of what it stores.

Four parts of a step need memory. Rajbhandari et al., 2020, "ZeRO: Memory optimizations toward
training trillion parameter models" (https://arxiv.org/abs/1910.02054), section 3, calls the first
three the model states, and the activations and buffers the residual states:

- Weights: 4 P bytes for P weights in float32, 2 P in 16 bits.
- Gradients: as the weights.
- Optimizer: SGD 0, momentum 4 P, Adam 8 P; in 16 bits also 4 P for the weights in float32.
- Activations: for each example, what the backward pass needs of the forward pass.

In data parallelism every worker stores all of them. The three ZeRO stages (section 5 of the paper)
divide the optimizer's state, then also the gradients, then also the weights among N workers.

Activations and gradients are not complete at the same time: the backward pass frees the activations
of a layer as soon as it has its gradients. `MemoryPlan.peak` follows the layers from the last one
to the first one, as Griewank and Walther describe for reverse mode ("Evaluating Derivatives", 2008,
chapter 4), with these properties of TensorFlow:

- A dense or convolutional layer with ReLU stores one tensor, because the bias and ReLU are computed
  in place, and the gradient of ReLU needs only its result.
- The backward pass of a layer needs the gradient of its output and creates that of its input.
- The result of flattening or reshaping shares the memory of its input.
- The optimizers of Keras 3 update one variable after another, with temporary tensors of its size.

benchmarks/memory_planner.py compares the predictions with real steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from helpers.errors import ConfigError, check_count, unknown_choice
from helpers.i18n import _

STAGES = (0, 1, 2, 3)
SLOTS = {"sgd": 0, "momentum": 1, "adam": 2}  # values in float32 for each weight
# Temporary tensors in the update of one variable by Keras 3, measured with TensorFlow 2.21. The
# first one of SGD is the scaled gradient.
TEMPORARIES = {"sgd": 1, "momentum": 3, "adam": 3}
ALIASES = ("Flatten", "Reshape", "InputLayer", "Activation", "Dropout")  # layers without a tensor


class Precision(NamedTuple):
    """The bytes of a number: a weight, its gradient, its copy in float32, an activation."""

    weight: int
    gradient: int
    master: int
    activation: int


PRECISIONS = {
    "float32": Precision(4, 4, 0, 4),
    "mixed_float16": Precision(2, 2, 4, 2),  # section 3.1 of the paper
}


class Layer(NamedTuple):
    """A layer with weights or with a result that the backward pass needs.

    Attributes:
      name: for messages.
      weights: the number of its weights, including the bias.
      outputs: the numbers in its result for one example.
    """

    name: str
    weights: int
    outputs: int


@dataclass(frozen=True)
class MemoryPlan:
    """The bytes that a worker needs.

    Attributes:
      weights, gradients, optimizer: the model states, of which ZeRO stores only a part per worker.
      activations: of the batch, including its input.
      buffers: the largest layer as a whole, if a stage of ZeRO divides its gradients or weights.
      peak: the highest sum at one time, including temporary tensors. It is often lower than
        `total`, because gradients grow while activations shrink.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    buffers: float
    peak: float

    @property
    def total(self) -> float:
        """The sum of all parts, as if they were complete at the same time."""
        return self.states + self.activations + self.buffers

    @property
    def states(self) -> float:
        """The model states: weights, gradients and optimizer."""
        return self.weights + self.gradients + self.optimizer


def dense(inputs: int, units: int, name: str = "dense") -> Layer:
    """A fully connected layer with a bias."""
    return Layer(name, (inputs + 1) * units, units)


def conv2d(height: int, width: int, channels: int, filters: int, kernel: int = 3) -> Layer:
    """A convolution with a bias and "same" padding, for results of `height` × `width`."""
    return Layer("conv2d", (kernel**2 * channels + 1) * filters, height * width * filters)


def layers_of(model: Any) -> list[Layer]:
    """The layers of a built sequential Keras model, which consists of dense and similar layers."""
    return [
        Layer(layer.name, layer.count_params(), math.prod(layer.output.shape[1:]))
        for layer in model.layers
        if type(layer).__name__ not in ALIASES
    ]


def plan(
    layers: Sequence[Layer],
    inputs: int,
    batch: int,
    *,
    optimizer: str = "adam",
    precision: str = "float32",
    workers: int = 1,
    stage: int = 0,
) -> MemoryPlan:
    """The memory of each worker.

    Args:
      layers: from the first to the last, in one sequence.
      inputs: the numbers in the input of one example.
      batch: the examples of one worker.
      optimizer: "sgd", "momentum" or "adam".
      precision: "float32" or "mixed_float16".
      workers: N, among which the stages of ZeRO divide the model states.
      stage: 0 divides nothing, 1 the optimizer's state, 2 also gradients, 3 also weights.

    Raises:
      ConfigError: an argument is out of range, or unknown.
    """
    check_count("batch", batch)
    check_count("workers", workers)
    if not layers:
        raise ConfigError(_("A network without layers needs no memory. Pass at least one layer."))
    for name, value, allowed in (
        ("optimizer", optimizer, SLOTS),
        ("precision", precision, PRECISIONS),
        ("stage", stage, STAGES),
    ):
        if value not in allowed:
            raise unknown_choice(name, value, allowed)
    size = PRECISIONS[precision]
    parts = [workers if stage >= first else 1 for first in (3, 2, 1)]
    count, largest = sum(layer.weights for layer in layers), max(layer.weights for layer in layers)
    weights, gradients, states = (
        each * count / part
        for each, part in zip(
            (size.weight, size.gradient, 4 * SLOTS[optimizer] + size.master), parts, strict=True
        )
    )
    buffers = float(largest * (size.gradient * (parts[1] > 1) + size.weight * (parts[0] > 1)))
    kept = [size.activation * batch * outputs for outputs in (inputs, *(x.outputs for x in layers))]
    rising = [size.gradient * layer.weights / parts[1] for layer in layers]
    updated = 4 * largest * TEMPORARIES[optimizer] / parts[2]
    step = max(_backward_peak(kept, rising), kept[0] + gradients + updated)
    return MemoryPlan(
        weights, gradients, states, float(sum(kept)), buffers, weights + states + buffers + step
    )


def _backward_peak(kept: Sequence[float], gradients: Sequence[float]) -> float:
    """The highest sum of activations and gradients in the backward pass.

    Args:
      kept: the bytes of the input and of the result of each layer.
      gradients: the bytes of the gradients of each layer's weights.
    """
    highest = 0.0
    for last in range(len(gradients), 0, -1):
        # The gradient of ReLU replaces its result, so the last result is counted once.
        passed = kept[last - 1] if last > 1 else 0
        highest = max(highest, sum(kept[: last + 1]) + passed + sum(gradients[last - 1 :]))
    return highest
