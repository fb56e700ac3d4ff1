"""Hashes of the tested sources of replaced functions.

`python -m tools.keras_sources` writes this module. Each function of
`helpers.keras_3.versions.REPLACED` is followed by hashes of its source, each with the first
release that has this source.
"""

# ruff: noqa: E501  # names cannot be wrapped

from __future__ import annotations

from collections.abc import Mapping

TESTED_SOURCES: Mapping[str, Mapping[str, str]] = {
    "keras.src.backend.tensorflow.core.Variable._initialize": {
        "3.10": "0929bec605b7",
    },
    "keras.src.backend.tensorflow.optimizer.TFOptimizer.__init__": {
        "3.10": "0be5b3954dfc",
    },
    "keras.src.backend.tensorflow.optimizer.TFOptimizer._apply_weight_decay": {
        "3.10": "0f412fba21e1",
    },
    "keras.src.backend.tensorflow.optimizer.TFOptimizer._backend_update_step": {
        "3.10": "9117333b6dd2",
    },
    "keras.src.backend.tensorflow.optimizer.TFOptimizer._overwrite_model_variables_with_average_value": {
        "3.10": "77d64684a702",
    },
    "keras.src.backend.tensorflow.optimizer.TFOptimizer._var_key": {
        "3.10": "094ff6ebb0c0",
    },
    "keras.src.backend.tensorflow.optimizer.TFOptimizer.add_variable_from_reference": {
        "3.10": "9296f9ad1614",
    },
    "keras.src.backend.tensorflow.trainer.TFEpochIterator.__init__": {
        "3.10": "794703988bd2",
    },
    "keras.src.backend.tensorflow.trainer.TFEpochIterator._get_iterator": {
        "3.10": "15980904afec",
    },
    "keras.src.backend.tensorflow.trainer.TFEpochIterator.catch_stop_iteration": {
        "3.10": "6f7e30dd3e1b",
    },
    "keras.src.backend.tensorflow.trainer.TensorFlowTrainer.__init__": {
        "3.10": "db8f652266ff",
    },
    "keras.src.backend.tensorflow.trainer.TensorFlowTrainer._make_function": {
        "3.10": "db902e1f2b13",
        "3.12": "703051878417",
    },
    "keras.src.backend.tensorflow.trainer.TensorFlowTrainer._maybe_symbolic_build": {
        "3.10": "514c0f1467c1",
        "3.11": "f8854e57c6c8",
    },
    "keras.src.backend.tensorflow.trainer.TensorFlowTrainer.evaluate": {
        "3.10": "e405da2e10a6",
        "3.11": "162deb84e1b6",
        "3.14": "9ad3bb843b4d",
    },
    "keras.src.backend.tensorflow.trainer.TensorFlowTrainer.fit": {
        "3.10": "e91c6e02eaf3",
        "3.11": "8ec7f6e0366c",
        "3.12": "c443656a13e2",
    },
    "keras.src.backend.tensorflow.trainer.TensorFlowTrainer.predict": {
        "3.10": "367ec975df98",
        "3.11": "994b523efcb6",
    },
    "keras.src.backend.tensorflow.trainer.TensorFlowTrainer.train_on_batch": {
        "3.10": "89b57fb06830",
        "3.14": "5743d2521d79",
        "3.15": "019b879a61fc",
    },
    "keras.src.backend.tensorflow.trainer.reduce_per_replica": {
        "3.10": "ecf2ff48d4d6",
    },
    "keras.src.layers.core.embedding.Embedding.call": {
        "3.10": "1f010bb030f0",
    },
    "keras.src.layers.layer.Layer.add_weight": {
        "3.10": "387479a29ea1",
        "3.14": "1314e0893d0c",
    },
    "keras.src.layers.normalization.batch_normalization.BatchNormalization._moments": {
        "3.10": "ff851231065f",
        "3.15": "4ef2dd17257b",
    },
    "keras.src.losses.loss.Loss.__call__": {
        "3.10": "90f470ab3f05",
    },
    "keras.src.losses.loss.reduce_weighted_values": {
        "3.10": "01a515706e7b",
    },
    "keras.src.losses.loss.scale_loss_for_distribution": {
        "3.10": "d51ce2890a92",
    },
    "keras.src.losses.loss.unscale_loss_for_distribution": {
        "3.10": "7d7ba58a6515",
    },
    "keras.src.metrics.confusion_metrics.AUC.result": {
        "3.10": "52ab59bccf08",
        "3.11": "bab6c6a0ca27",
    },
    "keras.src.metrics.confusion_metrics.Precision.result": {
        "3.10": "d283cecc4da5",
    },
    "keras.src.metrics.confusion_metrics.PrecisionAtRecall.result": {
        "3.10": "0b07b027d64e",
    },
    "keras.src.metrics.confusion_metrics.Recall.result": {
        "3.10": "22e9b8bc96d0",
    },
    "keras.src.metrics.confusion_metrics.RecallAtPrecision.result": {
        "3.10": "7c476b1c1f5e",
    },
    "keras.src.metrics.confusion_metrics.SensitivityAtSpecificity.result": {
        "3.10": "ad2c4f7a4a5e",
    },
    "keras.src.metrics.confusion_metrics.SpecificityAtSensitivity.result": {
        "3.10": "30fb6a1a0e68",
    },
    "keras.src.metrics.confusion_metrics._ConfusionMatrixConditionCount.result": {
        "3.10": "554df9962361",
    },
    "keras.src.metrics.f_score_metrics.FBetaScore.result": {
        "3.10": "2d1c8eaf57a8",
    },
    "keras.src.metrics.iou_metrics.IoU.result": {
        "3.10": "cf02b00adf83",
        "3.15": "317215039338",
    },
    "keras.src.metrics.metric.Metric.__init__": {
        "3.10": "e9cf13b06e7d",
    },
    "keras.src.metrics.metric.Metric.add_variable": {
        "3.10": "4b76dd186613",
    },
    "keras.src.metrics.metric.Metric.result": {
        "3.10": "71a1f7c67e33",
    },
    "keras.src.metrics.reduction_metrics.Mean.result": {
        "3.10": "fcf2446fec1d",
    },
    "keras.src.metrics.reduction_metrics.Mean.update_state": {
        "3.10": "131afaa19cbd",
    },
    "keras.src.metrics.reduction_metrics.MeanMetricWrapper.update_state": {
        "3.10": "28deb39b90b8",
        "3.12": "e51e9751c6d4",
    },
    "keras.src.metrics.reduction_metrics.Sum.result": {
        "3.10": "313546e3b87e",
    },
    "keras.src.metrics.reduction_metrics.Sum.update_state": {
        "3.10": "806977419922",
    },
    "keras.src.metrics.regression_metrics.R2Score.result": {
        "3.10": "dc159f8940a0",
    },
    "keras.src.metrics.regression_metrics.RootMeanSquaredError.result": {
        "3.10": "9a72f5bf0972",
    },
    "keras.src.optimizers.base_optimizer.BaseOptimizer._backend_apply_gradients": {
        "3.10": "911dfbb4fb47",
    },
    "keras.src.optimizers.base_optimizer.BaseOptimizer.build": {
        "3.10": "5aad51f4b6e6",
    },
    "keras.src.optimizers.loss_scale_optimizer.LossScaleOptimizer.check_finite": {
        "3.10": "5386095841a0",
    },
    "keras.src.trainers.compile_utils.CompileMetrics.result": {
        "3.10": "d31f16d99731",
    },
    "keras.src.trainers.data_adapters.array_data_adapter.ArrayDataAdapter.get_tf_dataset": {
        "3.10": "4e668a912454",
    },
    "keras.src.trainers.data_adapters.py_dataset_adapter.OrderedEnqueuer._run": {
        "3.10": "a1c4009784ab",
    },
    "keras.src.trainers.data_adapters.py_dataset_adapter.PyDatasetAdapter._finite_generator": {
        "3.10": "e5b3a2190029",
    },
    "keras.src.trainers.epoch_iterator.EpochIterator._enumerate_iterator": {
        "3.10": "48038425f7a9",
        "3.11": "91f0f4812558",
    },
    "keras.src.trainers.epoch_iterator.EpochIterator._interrupted_warning": {
        "3.10": "3a8cfac7043d",
    },
    "keras.src.trainers.epoch_iterator.EpochIterator.reset": {
        "3.10": "940568ff1eb5",
    },
    "keras.src.trainers.trainer.Trainer.compile": {
        "3.10": "ece08fa5848e",
        "3.15": "6ee305505df5",
    },
    "keras.src.trainers.trainer.Trainer.get_metrics_result": {
        "3.10": "e39a28d8b6da",
        "3.14": "721522c70de4",
    },
}
