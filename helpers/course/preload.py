"""Modules for the workers of a lesson, imported once by the process that forks them."""

from __future__ import annotations

import tensorflow_datasets

import helpers.course.data
import helpers.course.model
import helpers.keras_callbacks  # noqa: F401

tensorflow_datasets.builder_cls("mnist")  # imports the definitions of all datasets
