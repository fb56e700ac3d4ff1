"""oneDNN is chosen for workers and, before the import of TensorFlow, for the notebook."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import pytest

from helpers import init
from helpers.cluster.environment import base_env
from helpers.system.tensorflow_import import ONE_DNN, enable_onednn, prepare_kernel


@pytest.fixture
def on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    monkeypatch.setenv(ONE_DNN, "")  # so that changes by a test are reverted
    monkeypatch.delenv(ONE_DNN)


x86 = pytest.mark.parametrize("on", ["x86_64"], indirect=True)
arm = pytest.mark.parametrize("on", ["aarch64"], indirect=True)


@x86
def test_on_x86_it_is_on_for_workers_and_for_a_notebook_that_begins(on: Any) -> None:
    assert base_env()[ONE_DNN] == "1"
    assert ONE_DNN not in os.environ
    init()
    assert os.environ[ONE_DNN] == "1"


@x86
def test_a_readers_choice_stays(on: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ONE_DNN, "0")
    assert base_env()[ONE_DNN] == "0"


@arm
def test_elsewhere_tensorflow_decides(on: Any) -> None:
    environ: dict[str, str] = {}
    enable_onednn(environ)
    assert not environ


@x86
def test_a_kernel_has_it_as_soon_as_it_imports_helpers(
    on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    prepare_kernel()
    assert os.environ[ONE_DNN] == "1"
