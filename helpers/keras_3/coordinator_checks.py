"""Checks and builds shared by `fit`, `evaluate` and `predict` under ParameterServerStrategy."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _, join_items, ngettext
from helpers.keras_3 import server_optimizers
from helpers.keras_3.coordinator_data import WorkerData
from helpers.keras_3.server_variables import servers_of

BATCH_HOOKS = (
    "on_batch_begin",
    "on_batch_end",
    *(f"on_{mode}_batch_begin" for mode in ("train", "test", "predict")),
    *(f"on_{mode}_batch_end" for mode in ("train", "test", "predict")),
)


def coordinator_of(model: Any) -> Any:
    """The strategy's only coordinator."""
    import tensorflow as tf

    return tf.distribute.coordinator.ClusterCoordinator(model.distribute_strategy)


def build_model(model: Any, data: WorkerData) -> None:
    """Builds the model, its metrics and its optimizer on the servers, unless they are built."""
    with model.distribute_strategy.scope():
        model._symbolic_build(data_batch=data.element_spec)


def callback_list(model: Any, callbacks: Any, verbose: Any, **options: Any) -> Any:
    """Keras's list of callbacks, without a progress bar because steps end on the workers."""
    lists: Any = importlib.import_module("keras.src.callbacks").CallbackList
    if isinstance(callbacks, lists):
        return callbacks
    called = lists(callbacks, model=model, verbose=0 if verbose == "auto" else verbose, **options)
    _check_callbacks(called.callbacks)
    return called


def _check_callbacks(callbacks: Iterable[Any]) -> None:
    """Raises ConfigError if a callback must be called after each batch."""
    of_batches = [type(one).__name__ for one in callbacks if _needs_batches(one)]
    if of_batches:
        message = _(
            "These callbacks must be called after each batch, but under ParameterServerStrategy "
            "batches end on the workers: {names}. Use on_epoch_end, with fewer steps_per_epoch if "
            "it must be called more often. For ModelCheckpoint and BackupAndRestore, use "
            'save_freq="epoch".'
        )
        raise ConfigError(message.format(names=join_items(of_batches)))


def _needs_batches(callback: Any) -> bool:
    callbacks: Any = importlib.import_module("keras.src.callbacks")
    if getattr(callback, "_supports_tf_logs", False):
        return False
    if isinstance(callback, (callbacks.ModelCheckpoint, callbacks.BackupAndRestore)):
        return bool(callback.save_freq != "epoch")
    if isinstance(callback, (callbacks.ProgbarLogger, callbacks.TensorBoard)):
        return getattr(callback, "update_freq", "epoch") not in ("epoch", 2**63)
    base = callbacks.Callback
    return any(
        getattr(getattr(callback, hook), "__func__", getattr(callback, hook))
        is not getattr(base, hook)
        for hook in BATCH_HOOKS
    )


def check_model(model: Any, *, training: bool) -> None:
    """Raises ConfigError if the model needs a feature that parameter servers do not support."""
    if model.run_eagerly:
        raise ConfigError(
            _(
                "run_eagerly=True does not work under ParameterServerStrategy, because a "
                "worker runs only TensorFlow functions. Omit it."
            )
        )
    if model.jit_compile:
        raise ConfigError(
            _(
                "jit_compile=True does not work under ParameterServerStrategy, because XLA cannot "
                "update variables of another process. Omit it, or pass jit_compile=False."
            )
        )
    replicas = model.distribute_strategy.num_replicas_in_sync
    if replicas > 1:
        message = ngettext(
            "Each worker has {number} GPU. Under ParameterServerStrategy, "
            "Keras 3's fit, evaluate and predict use one device in each worker: start one worker "
            "for each "
            "GPU, and set CUDA_VISIBLE_DEVICES for it.",
            "Each worker has {number} GPUs. Under ParameterServerStrategy, "
            "Keras 3's fit, evaluate and predict use one device in each worker: start one worker "
            "for each "
            "GPU, and set CUDA_VISIBLE_DEVICES for it.",
            replicas,
        )
        raise ConfigError(message.format(number=replicas))
    variables = [*model.variables, *model.metrics_variables]
    if training:
        variables += model.optimizer.variables
        server_optimizers.check_optimizer(model.optimizer, model.trainable_variables)
    paths = [
        variable.path
        for variable in variables
        if not all("/job:ps/" in device for device in servers_of(variable))
    ]
    if paths:
        raise server_optimizers.elsewhere(paths)
