"""Provides `tf.estimator` on TensorFlow 2.16 and later, from which it was removed.

Estimator needs Keras 2 (the package tf-keras), so TF_USE_LEGACY_KERAS=1 must be set before
TensorFlow is imported, as in cluster_config.py. This module installs the package
tensorflow-estimator as `tf.estimator`, and adds the few pieces that this package needs from
TensorFlow. Copied from helpers/estimator of multiworker-lessons (Apache License 2.0,
https://www.apache.org/licenses/LICENSE-2.0).
"""

from __future__ import annotations

import importlib
import sys
from importlib import util
from typing import Any

import tensorflow as tf


# The functions follow here.


if not hasattr(tf, "estimator"):
    _install_estimator_training()
    _register_api_name()
    _stub_package_init()
    estimator = importlib.import_module("tensorflow_estimator._api.v2.estimator")
    tf.estimator = sys.modules["tensorflow.estimator"] = estimator
