"""Tested sources of replaced functions; `python -m tools.keras_sources` writes this.

Each function of `helpers.keras_3.versions.REPLACED`; below it, from which release on it has
the source with this hash.
"""

from __future__ import annotations

from collections.abc import Mapping

TESTED_SOURCES: Mapping[str, Mapping[str, str]] = {
    "keras.src.backend.tensorflow.trainer.TensorFlowTrainer._make_function": {
        "3.10": "db902e1f2b13",
        "3.12": "703051878417",
    },
    "keras.src.backend.tensorflow.trainer.TensorFlowTrainer._maybe_symbolic_build": {
        "3.10": "514c0f1467c1",
        "3.11": "f8854e57c6c8",
    },
    "keras.src.backend.tensorflow.trainer.reduce_per_replica": {
        "3.10": "ecf2ff48d4d6",
    },
    "keras.src.layers.layer.Layer.add_weight": {
        "3.10": "387479a29ea1",
        "3.14": "1314e0893d0c",
    },
    "keras.src.optimizers.base_optimizer.BaseOptimizer._backend_apply_gradients": {
        "3.10": "911dfbb4fb47",
    },
    "keras.src.optimizers.loss_scale_optimizer.LossScaleOptimizer.check_finite": {
        "3.10": "5386095841a0",
    },
}
