"""What the workers of a lesson need, imported once by the process that they are forked from."""

from __future__ import annotations

import os

import tensorflow_datasets

import helpers.course.data
from helpers.system.keras_version import version_from_env

if version_from_env(os.environ) == 2:
    import helpers.course.model  # noqa: F401

tensorflow_datasets.builder_cls("mnist")  # imports the definitions of all data sets
