"""`helpers.estimator` on the installed TensorFlow, in separate processes."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

from tests.support import ROOT

VERSION = metadata.version("tensorflow")
GENUINE = tuple(map(int, VERSION.split(".")[:2])) <= (2, 15)
only_genuine = pytest.mark.skipif(not GENUINE, reason="TensorFlow has no tf.estimator of its own")
only_supplied = pytest.mark.skipif(GENUINE, reason="TensorFlow has its own tf.estimator")


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        k: v for k, v in os.environ.items() if k not in ("TF_USE_LEGACY_KERAS", "TF_CONFIG")
    }
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env={**inherited, "TF_CPP_MIN_LOG_LEVEL": "3", **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def output(code: str, **environ: str) -> str:
    done = run(code, **environ)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def installed(**versions: str | None) -> str:
    """Code that makes other versions appear installed. None makes a package appear missing."""
    known = {name.replace("_", "-"): version for name, version in versions.items()}
    return f"""
        from importlib import metadata, util
        known, genuine, found = {known!r}, metadata.version, util.find_spec
        def version(name):
            if known.get(name, "") is None:
                raise metadata.PackageNotFoundError(name)
            return known.get(name) or genuine(name)
        def find_spec(name, *rest):
            return None if known.get(name.replace("_", "-"), "") is None else found(name, *rest)
        metadata.version, util.find_spec = version, find_spec
        metadata.packages_distributions = dict
        """


def refusal(code: str, **versions: str | None) -> str:
    """The error of helpers.estimator, after `code`, with those versions installed."""
    prepare = textwrap.dedent(installed(**versions)) + textwrap.dedent(code)
    attempt = """
    try:
        import helpers.estimator
    except ImportError as error:
        from helpers.errors import ConfigError
        assert isinstance(error, ConfigError)
        print(error)
    """
    return output(prepare + textwrap.dedent(attempt))


def test_one_import_gives_tf_estimator_and_keras_2() -> None:
    text = output(
        """
        import helpers.estimator
        import tensorflow as tf
        from tensorflow.estimator import RunConfig
        assert RunConfig is tf.estimator.RunConfig
        print(tf.estimator.Estimator.__module__, tf.keras.optimizers.legacy.SGD.__module__)
        """
    )
    keras = "keras.src" if GENUINE else "tf_keras.src"
    assert text == (
        "tensorflow_estimator.python.estimator.estimator "
        f"{keras}.optimizers.legacy.gradient_descent"
    )


def test_it_brings_nothing_else_of_the_package_along() -> None:
    loaded = output(
        """
        import sys
        import helpers.estimator
        print(*sorted(name for name in sys.modules if name.startswith("helpers.")))
        """
    )
    names = ("errors", "estimator", "i18n", "system")
    rooms = ("system.tensorflow_import", "system.keras_version", "system.import_hooks")
    ours = {f"helpers.{name}" for name in names + rooms}
    assert set(loaded.split()) - {"helpers.estimator.training"} == ours


def test_estimator_code_trains_evaluates_and_predicts(tmp_path: Path) -> None:
    text = output(
        f"""
        import helpers.estimator
        import numpy as np
        import tensorflow as tf

        def input_fn():
            x = np.arange(8, dtype=np.float32)
            return tf.data.Dataset.from_tensor_slices(({{"x": x}}, 2 * x + 1)).batch(8).repeat(300)

        column = tf.feature_column.numeric_column("x")
        estimator = tf.estimator.LinearRegressor([column], model_dir={str(tmp_path)!r})
        estimator.train(input_fn)
        assert estimator.evaluate(input_fn, steps=1)["average_loss"] < 1.0
        prediction = next(estimator.predict(input_fn))
        print(prediction["predictions"].shape, estimator.latest_checkpoint().rpartition("-")[2])
        """
    )
    assert text.splitlines()[-1] == "(1,) 300"


@pytest.mark.parametrize("module", ["worker.training", "estimator"])
def test_whichever_module_comes_first_chooses_keras_2(module: str) -> None:
    code = f"""
        import helpers.{module}
        import tensorflow as tf
        print(tf.keras.optimizers.legacy.SGD.__module__.partition(".")[0], hasattr(tf, "estimator"))
        """
    assert output(code) == ("keras True" if GENUINE else "tf_keras True")


@pytest.mark.parametrize(
    ("first", "module"),
    [
        pytest.param(
            *(first, module), marks=() if module == "course.data" else pytest.mark.programs
        )
        for first in ("", "helpers.estimator", "tensorflow")
        for module in ("course.data", "course.model", "course.preload")
    ],
)
def test_a_module_for_either_keras_takes_the_keras_of_its_process(first: str, module: str) -> None:
    code = f"""
        {first and f"import {first}"}
        import helpers.{module}
        import tensorflow as tf
        print(tf.keras.Model.__module__.partition(".")[0], hasattr(tf, "estimator"))
        """
    modern = "tf_keras True" if first == "helpers.estimator" else "keras False"
    assert output(code) == ("keras True" if GENUINE else modern)


def test_a_model_fn_that_is_called_chooses_keras_2() -> None:
    code = """
        from helpers import model_fn
        import numpy as np
        mode = "infer"
        print(type(model_fn(np.zeros((1, 28, 28, 1), np.float32), None, mode, {})).__name__)
        """
    assert output(code) == "EstimatorSpec"


def test_no_module_imports_tensorflow_past_helpers_estimator() -> None:
    allowed = {
        "helpers/estimator/__init__.py",
        "helpers/estimator/training.py",
        "helpers/in_process.py",
        "helpers/course/peak_memory.py",  # asks the allocator, with either Keras
    }
    importing = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "helpers").rglob("*.py")
        if re.search(r"^ *(import tensorflow as tf|from tensorflow\b)", path.read_text(), re.M)
        and not re.search(r"TYPE_CHECKING:\n    import tensorflow as tf", path.read_text())
    }
    own = {
        path
        for path in importing
        if path.startswith(("helpers/keras_3/", "helpers/export/templates/"))
    }
    assert importing - own - allowed == set()


def test_the_choice_of_keras_2_imports_no_tensorflow() -> None:
    code = """
        import sys
        from helpers.system.keras_version import select_keras_2
        select_keras_2()
        print("tensorflow" in sys.modules)
        """
    assert output(code) == "False"


@only_genuine
@pytest.mark.parametrize("before", ["", "import tensorflow"])
def test_a_variable_that_others_left_does_not_break_keras_here(before: str) -> None:
    code = f"""
        {before}
        import helpers.estimator, os
        import tensorflow as tf
        print(tf.keras.Model.__module__.partition(".")[0], os.environ.get("TF_USE_LEGACY_KERAS"))
        """
    has_package = importlib.util.find_spec("tf_keras") is not None
    assert output(code, TF_USE_LEGACY_KERAS="1") == ("tf_keras 1" if has_package else "keras None")


@only_genuine
def test_the_order_of_imports_does_not_matter_where_tensorflow_has_estimator() -> None:
    assert output("import tensorflow, helpers.estimator; print(tensorflow.estimator.ModeKeys.EVAL)")


@only_supplied
def test_tensorflow_imported_first_with_keras_3_is_an_error() -> None:
    said = refusal("import tensorflow")
    assert "tensorflow was imported before helpers.estimator" in said
    assert 'put "import helpers.estimator" above "import tensorflow"' in said


@only_supplied
def test_a_variable_set_too_late_is_an_error_too() -> None:
    said = refusal(
        'import os, tensorflow as tf; tf.keras.Model; os.environ["TF_USE_LEGACY_KERAS"] = "1"'
    )
    assert "tensorflow was imported before helpers.estimator" in said


@only_supplied
def test_tensorflow_imported_first_with_keras_2_is_welcome() -> None:
    code = "import tensorflow as tf, helpers.estimator; print(tf.estimator.ModeKeys.EVAL)"
    assert output(code, TF_USE_LEGACY_KERAS="1") == "eval"


def test_a_missing_tf_keras_is_named_with_the_command_that_installs_it() -> None:
    said = refusal("", tensorflow="2.19.0", tf_keras=None)
    assert said.startswith("tf-keras is not installed.")
    assert 'pip install "tf-keras==2.19.*" "tensorflow==2.19.0"' in said


def test_a_tf_keras_of_another_minor_version_is_named() -> None:
    said = refusal("", tensorflow="2.19.1", tf_keras="2.18.0")
    assert said.startswith("tf-keras 2.18.0 does not match TensorFlow 2.19.1")
    assert 'pip install "tf-keras==2.19.*"' in said


@pytest.mark.parametrize(("version", "found"), [(None, "no version"), ("2.14.0", "2.14.0")])
def test_a_missing_or_other_tensorflow_estimator_is_named(version: str | None, found: str) -> None:
    said = refusal("", tensorflow="2.19.1", tf_keras="2.19.0", tensorflow_estimator=version)
    assert f"tensorflow-estimator 2.15.0 is not installed (found: {found})" in said
    assert "pip install tensorflow-estimator==2.15.0" in said


@pytest.mark.parametrize("version", ["2.22.0", "2.22.0rc1", "3.0.0"])
def test_a_tensorflow_newer_than_tested_is_refused(version: str) -> None:
    said = refusal("", tensorflow=version, tf_keras="2.22.0")
    assert f"TensorFlow {version} is installed; helpers.estimator was tested up to 2.21" in said
    assert '"tensorflow==2.21.*" "tf-keras==2.21.*"' in said


@pytest.mark.parametrize("method", ["train", "evaluate"])
def test_a_method_that_cannot_serve_a_cluster_says_so(tmp_path: Path, method: str) -> None:
    code = f"""
        import json, os
        import helpers.estimator
        import tensorflow as tf
        strategy = tf.distribute.OneDeviceStrategy("cpu:0")
        cluster = {{"chief": ["localhost:1"], "worker": ["localhost:2"]}}
        task = {{"type": "chief", "index": 0}}
        os.environ["TF_CONFIG"] = json.dumps({{"cluster": cluster, "task": task}})
        config = tf.estimator.RunConfig(train_distribute=strategy, eval_distribute=strategy)
        head = tf.estimator.RegressionHead()
        features = [tf.feature_column.numeric_column("x")]
        estimator = tf.estimator.LinearEstimator(head, features, {str(tmp_path)!r}, config=config)
        data = {{"x": [1.0]}}, [1.0]
        try:
            estimator.{method}(lambda: tf.data.Dataset.from_tensors(data), steps=1)
        except ValueError as error:
            print(error)
        """
    said = output(code)
    assert "train_and_evaluate" in said or "STANDALONE_CLIENT" in said, said


@only_supplied
def test_a_remote_cluster_is_refused() -> None:
    code = """
        import helpers.estimator
        import tensorflow as tf
        from tensorflow_estimator.python.estimator.run_config import RunConfig
        from tensorflow.python.distribute.distribute_config import DistributeConfig
        strategy = tf.distribute.OneDeviceStrategy("cpu:0")
        remote = DistributeConfig(strategy, remote_cluster={"worker": ["localhost:1"]})
        try:
            RunConfig(experimental_distribute=remote)
        except ValueError as error:
            print(error)
        """
    assert "has a remote_cluster" in output(code)


def test_run_config_counts_as_tensorflow_2_15_does(tmp_path: Path) -> None:
    """The numbers in this test are from the original module."""
    code = f"""
        import json, os
        import helpers.estimator
        import tensorflow as tf
        from tensorflow.python.distribute import estimator_training as training
        from tensorflow.python.distribute import distribute_coordinator as coordinator
        strategy = tf.distribute.OneDeviceStrategy("cpu:0")
        cluster = {{"worker": ["h:2", "h:3"], "ps": ["h:4"], "chief": ["h:1"]}}

        def place(task_type, index):
            task = {{"type": task_type, "index": index}}
            os.environ["TF_CONFIG"] = json.dumps({{"cluster": cluster, "task": task}})
            config = tf.estimator.RunConfig({str(tmp_path)!r}, train_distribute=strategy)
            estimator = tf.estimator.Estimator(lambda features: None, config=config)
            seen = []

            class Executor:
                def __init__(self, estimator, *specs):
                    seen.append(estimator._config)

                def _start_continuous_evaluation(self):
                    pass

            def run(train, strategy, evaluate, eval_strategy, **unused):
                spec = tf.train.ClusterSpec(cluster)
                context = coordinator._WorkerContext(strategy, spec, task_type, index)
                with context:
                    (evaluate if task_type == "evaluator" else train)(strategy)

            coordinator.run_distribute_coordinator = run
            tf.estimator.Estimator.train = lambda self, *a, **k: seen.append(self._config)
            spec = tf.estimator.TrainSpec(lambda: None)
            training.train_and_evaluate(estimator, spec, None, Executor)
            found = seen[0]
            return (
                found.task_type, found.task_id, found.is_chief, found.master,
                found.num_worker_replicas, found.num_ps_replicas, found.global_id_in_cluster,
            )

        for task in ("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("evaluator", 0):
            print(*place(*task))
        """
    assert output(code).splitlines() == [
        "chief 0 True grpc://h:1 3 1 0",
        "worker 0 False grpc://h:2 3 1 1",
        "worker 1 False grpc://h:3 3 1 2",
        "ps 0 False grpc://h:4 3 1 3",
        "evaluator 0 True  0 0 None",
    ]


def test_a_worker_beside_parameter_servers_connects_to_them_alone() -> None:
    """Confirms with TensorFlow how `TFConfig.explain` describes waiting."""
    code = """
        import json, os
        import helpers.estimator
        import tensorflow as tf
        cluster = {"worker": ["h:2", "h:3"], "ps": ["h:4"], "chief": ["h:1"]}
        for task_type, index in ("chief", 0), ("worker", 1), ("ps", 0):
            task = {"type": task_type, "index": index}
            os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
            filters = tf.estimator.RunConfig().session_config.device_filters
            print(task_type, *filters)
        """
    assert output(code).splitlines() == [
        "chief /job:ps /job:chief",
        "worker /job:ps /job:worker/task:1",
        "ps /job:ps /job:worker /job:chief /job:master",
    ]
