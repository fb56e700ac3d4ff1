from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.course.data import DATA_DIR, find_damaged_file, input_fn, load
from helpers.errors import DataError
from tools.datasets import FILES, build, check_idx_files, main


def examples(dataset: tf.data.Dataset) -> Iterator[tuple[bytes, int]]:
    """The examples, read in large batches because single reads are about four times slower."""
    for images, labels in dataset.batch(1000).as_numpy_iterator():
        yield from zip((image.tobytes() for image in images), map(int, labels), strict=True)


def test_the_whole_of_mnist_is_bundled() -> None:
    info = tfds.builder("mnist", data_dir=DATA_DIR).info
    assert {name: split.num_examples for name, split in info.splits.items()} == {
        "train": 60_000,
        "test": 10_000,
    }
    labels = Counter(label for _, label in examples(load("test")))
    assert labels == {
        0: 980,
        1: 1135,
        2: 1032,
        3: 1010,
        4: 982,
        5: 892,
        6: 958,
        7: 1028,
        8: 974,
        9: 1009,
    }


@pytest.mark.parametrize("split", ["test", "test[37:61]"])
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_examples_are_those_that_tfds_reads(name: str, split: str) -> None:
    theirs = tfds.load(name, split=split, data_dir=DATA_DIR, download=False, as_supervised=True)
    ours = load(split, {"dataset": name})
    assert ours.element_spec == theirs.element_spec
    assert ours.cardinality() == theirs.cardinality()
    assert list(examples(ours)) == list(examples(theirs))


def test_no_warning_of_tfds_reaches_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr("tensorflow_datasets.core.features.feature.log_tf_warning", warned.append)
    tfds.builder("mnist", data_dir=DATA_DIR).info.features["image"].dtype  # noqa: B018 - it warns
    assert warned == ["FeatureConnector"]
    load("test")
    assert warned == ["FeatureConnector"]


def images_of(workers: int, index: int) -> list[bytes]:
    context = tf.distribute.InputContext(workers, index, workers)
    return [image for image, _ in examples(load("train", {}, context))]


@pytest.mark.parametrize("workers", [2, 3, 7])
def test_shards_are_disjoint_and_cover_the_data_set(workers: int) -> None:
    shards = [images_of(workers, index) for index in range(workers)]
    assert len({image for shard in shards for image in shard}) == 60_000
    assert sum(map(len, shards)) == 60_000
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@settings(max_examples=8, deadline=None)
@given(batch=st.integers(1, 512), workers=st.integers(1, 6))
def test_training_batches_have_one_shape(batch: int, workers: int) -> None:
    context = tf.distribute.InputContext(workers, workers - 1, workers)
    dataset = input_fn("train", {"batch_size": batch}, context)
    assert dataset.element_spec[0] == tf.TensorSpec((batch, 28, 28, 1), tf.float32)
    assert dataset.element_spec[1] == tf.TensorSpec((batch,), tf.int64)
    assert int(dataset.cardinality()) == 60_000 // workers // batch


def test_pixels_are_between_zero_and_one() -> None:
    images, _ = next(iter(input_fn("train", {"batch_size": 256})))
    assert images.numpy().min() == 0
    assert images.numpy().max() == 1


def test_evaluation_reads_every_test_image_in_order_and_prediction_no_label() -> None:
    labels = np.concatenate([label for _, label in input_fn("eval").as_numpy_iterator()])
    assert len(labels) == 10_000
    again = np.concatenate([label for _, label in input_fn("eval").as_numpy_iterator()])
    assert (labels == again).all()
    assert input_fn("infer").element_spec == tf.TensorSpec((None, 28, 28, 1), tf.float32)


def test_a_seed_repeats_the_order_and_epochs_differ() -> None:
    dataset = input_fn("train", {"batch_size": 32, "seed": 7})
    first, second = (next(iter(dataset))[1].numpy() for _ in range(2))
    assert (first != second).any()
    again = next(iter(input_fn("train", {"batch_size": 32, "seed": 7})))[1].numpy()
    assert (first == again).all()


def test_any_image_data_set_of_tfds_goes_through_the_same_function(tmp_path: Path) -> None:
    with tfds.testing.mock_data(num_examples=40):
        params = {"dataset": "fashion_mnist", "batch_size": 8, "data_dir": tmp_path}
        images, _ = next(iter(input_fn("train", params)))
        assert images.shape == (8, 28, 28, 1)
        params |= {"dataset": "cifar10"}
        assert next(iter(input_fn("eval", params)))[0].shape == (8, 32, 32, 3)


def test_images_of_different_sizes_need_a_common_one(tmp_path: Path) -> None:
    params: dict[str, Any] = {"dataset": "tf_flowers", "batch_size": 4, "data_dir": tmp_path}
    with tfds.testing.mock_data(num_examples=8):
        with pytest.raises(DataError, match="image_size"):
            input_fn("train", params)
        params["image_size"] = (24, 32)
        assert next(iter(input_fn("train", params)))[0].shape == (4, 24, 32, 3)


@pytest.fixture
def copy_of_mnist(tmp_path: Path) -> Path:
    shutil.copytree(DATA_DIR / "mnist", tmp_path / "mnist")
    return tmp_path


def test_another_data_dir_works_through_the_same_function(copy_of_mnist: Path) -> None:
    assert int(input_fn("eval", {"data_dir": copy_of_mnist}).cardinality()) == 157


@pytest.mark.parametrize("damage", ["cut short", "one byte changed", "emptied"])
def test_a_damaged_file_is_named(copy_of_mnist: Path, damage: str) -> None:
    path = copy_of_mnist / "mnist/3.0.1/mnist-train.tfrecord-00000-of-00001"
    data = bytearray(path.read_bytes())
    if damage == "one byte changed":
        data[len(data) // 2] ^= 0xFF
    path.write_bytes({"cut short": bytes(data[:-100]), "emptied": b""}.get(damage, bytes(data)))
    message = find_damaged_file({"data_dir": copy_of_mnist})
    assert message
    assert f"{path} is damaged" in message
    assert "of its 60000 records" in message


def test_a_sound_data_set_has_no_damaged_file() -> None:
    assert find_damaged_file({}) is None


def test_damaged_metadata_is_named(copy_of_mnist: Path) -> None:
    path = copy_of_mnist / "mnist/3.0.1/dataset_info.json"
    path.write_text(path.read_text()[:200])
    with pytest.raises(DataError, match=r"dataset_info\.json is damaged"):
        input_fn("train", {"data_dir": copy_of_mnist})


@pytest.mark.parametrize("params", [{"data_dir": "/no/such/folder"}, {"dataset": "no_such_set"}])
def test_a_missing_data_set_gets_a_sentence(params: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"Check the name and data_dir"):
        input_fn("train", params)


def write_idx_files(folder: Path) -> None:
    """Recreates the original files from the bundled dataset, in its order."""
    names = iter(FILES)
    for split, count in (("train", 60_000), ("test", 10_000)):
        pairs = list(load(split).batch(1000).as_numpy_iterator())
        images = b"".join(some.tobytes() for some, _ in pairs)
        header = b"\0\0\x08\x03" + np.array([count, 28, 28], ">i4").tobytes()
        (folder / next(names)).write_bytes(header + images)
        labels = bytes(int(label) for _, some in pairs for label in some)
        header = b"\0\0\x08\x01" + np.array([count], ">i4").tobytes()
        (folder / next(names)).write_bytes(header + labels)


@pytest.mark.training
def test_the_program_makes_a_data_set_from_idx_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tools.datasets as program

    source, target = tmp_path / "idx", tmp_path / "tfds"
    source.mkdir()
    write_idx_files(source)  # TFDS shuffled them, so the sums differ but the contents do not
    monkeypatch.setattr(program, "check_idx_files", lambda folder, name: None)
    made = build(source, target)
    assert {*examples(load("test", {"data_dir": target}))} == {*examples(load("test"))}
    info = json.loads((made / "dataset_info.json").read_text())
    assert [split["shardLengths"] for split in info["splits"]] == [["60000"], ["10000"]]


def test_wrong_idx_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path)]) == 1
    assert "train-images-idx3-ubyte is missing" in capsys.readouterr().err
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"not it")
    with pytest.raises(DataError, match="its MD5 is"):
        check_idx_files(tmp_path)
