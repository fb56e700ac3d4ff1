"""`input_fn`: images and labels from TensorFlow Datasets, with one shard per worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.either_keras import tf
from helpers.errors import DataError
from helpers.i18n import _, ngettext
from helpers.params import param

DATA_DIR = Path(__file__).parents[1] / "datasets"
# TFDS has already shuffled the files, and this buffer reorders each epoch. It is decoded before the
# first batch. With 10,000 images, that was a third of the time to the first step.
SHUFFLE_BUFFER = 1_000
DECODED_TOGETHER = 256  # examples, or fewer large ones, limited by:
DECODED_BYTES = 2**20
RECORDED = ("string", "int64", "float32")  # the types of tf.train.Example


def input_fn(
    mode: str,
    params: Mapping[str, Any] | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One epoch of batches for one worker.

    Args:
      mode: ``"train"`` reads the train split, shuffles it, and drops the last, incomplete batch.
        ``"eval"`` and ``"infer"`` read the test split.
      params: ``batch_size`` (examples per replica, 64), ``dataset`` (a TFDS name,
        "mnist"), ``data_dir`` (the bundled folder), ``image_size`` ((height, width) to
        resize to, for datasets whose images differ), ``seed`` of the shuffle (1).
      input_context: passed by Estimator and by `distribute_datasets_from_function`. This worker
        reads part `input_pipeline_id` of `num_input_pipelines` of the train split.

    Returns:
      A dataset of (images, labels): float32 [batch, height, width, channels] in [0, 1], and int64
      [batch]. In "infer" mode, a dataset of images only.

    Raises:
      DataError: the dataset is missing, damaged, or its images have no common size.
    """
    params = params or {}
    training = mode == "train"
    if training:
        dataset = load("train", params, input_context).cache()  # decoded once, in the first epoch
        dataset = dataset.shuffle(SHUFFLE_BUFFER, seed=param(params, "seed"))
    else:
        dataset = load("test", params)
    dataset = dataset.batch(param(params, "batch_size"), drop_remainder=training)
    dataset = dataset.map(scale)  # once per batch: 64 times fewer calls than once per image
    if mode == "infer":
        dataset = dataset.map(lambda images, labels: images)
    return dataset.prefetch(2).with_options(single_thread_options())


def load(
    split: str,
    params: Mapping[str, Any] | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One worker's part of a split, in file order.

    Each worker reads its own range (`tfds.even_splits`), which costs 1/N of the work.
    `Dataset.shard` would read and parse every record, and then drop most of them.

    Returns:
      A dataset of (image, label): uint8 [height, width, channels], int64 [].

    Raises:
      DataError: as in `input_fn`.
    """
    import tensorflow_datasets as tfds

    params = params or {}
    name, data_dir = params.get("dataset", "mnist"), params.get("data_dir") or DATA_DIR
    if input_context:
        parts = tfds.even_splits(split, input_context.num_input_pipelines)
        split = parts[input_context.input_pipeline_id]
    try:
        builder = tfds.builder(name, data_dir=data_dir)
        info = builder.info
        if _has_records(info, split) and _have_one_shape(info):
            dataset = _decoded_together(info, split)
        else:
            config = tfds.ReadConfig(try_autocache=False)  # autocache would store encoded images
            dataset = builder.as_dataset(split=split, as_supervised=True, read_config=config)
    except Exception as error:  # TFDS raises many types, even a bare ValueError
        raise _load_error(name, data_dir, split, error) from error
    return _same_size(dataset, info, params.get("image_size"))


def _has_records(info: Any, split: Any) -> bool:
    """Whether TensorFlow itself can read the files of a split."""
    if info.file_format.value != "tfrecord" or not info.splits:
        return False
    return all(tf.io.gfile.exists(path) for path in info.splits[split].filepaths)


def _have_one_shape(info: Any) -> bool:
    """Whether a dataset consists of pairs with fixed shapes, one value of a record each.

    Images of one size with labels are such pairs.
    """
    keys = info.supervised_keys or ()
    specs = info.features.get_tensor_spec()
    return len(keys) == 2 and all(
        isinstance(specs.get(key), tf.TensorSpec)
        and specs[key].shape.is_fully_defined()
        and _recorded(info, key).shape == ()
        and _recorded(info, key).dtype.name in RECORDED
        for key in keys
    )


def _recorded(info: Any, key: str) -> tf.TensorSpec:
    """The spec of a feature as stored in a record."""
    return info.features[key].get_serialized_info().to_tensor_spec()


def _decoded_together(info: Any, split: Any) -> tf.data.Dataset:
    """A split in file order, decoded in groups.

    TFDS decodes single examples, which needs three times the time.
    """
    keys, specs = info.supervised_keys, info.features.get_tensor_spec()
    recorded = {key: tf.io.FixedLenFeature((), _recorded(info, key).dtype) for key in keys}
    size = sum(specs[key].shape.num_elements() * specs[key].dtype.size for key in keys)
    together = max(1, min(DECODED_TOGETHER, DECODED_BYTES // size))
    part = info.splits[split]
    parts = [(one.filename, one.skip, one.take) for one in part.file_instructions]

    def read(path: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path)
        return records.skip(tf.cast(skip, tf.int64)).take(tf.cast(take, tf.int64))

    def decode(values: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        # A feature's decode_batch_example warns on stderr, because TFDS uses a deprecated name.
        return tuple(info.features[key].decode_example(values[key]) for key in keys)

    def decode_together(records: tf.Tensor) -> tuple[tf.Tensor, ...]:
        values = tf.io.parse_example(records, recorded)
        return tf.map_fn(decode, values, fn_output_signature=tuple(specs[key] for key in keys))

    files = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*parts, strict=True))))
    dataset = files.flat_map(read).batch(together).map(decode_together).unbatch()
    return dataset.apply(tf.data.experimental.assert_cardinality(part.num_examples))


def scale(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Converts uint8 pixels to float32 from 0 to 1, without a change of shape."""
    return tf.cast(images, tf.float32) / 255, labels


def single_thread_options() -> tf.data.Options:
    """Options for an input pipeline with one thread and without autotuning.

    A worker of the course has one or two cores, which the training step needs. A thread pool for
    input would compete for them.
    """
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    return options


def find_damaged_file(params: Mapping[str, Any]) -> str | None:
    """A sentence about the first file of the dataset that cannot be read to its end, or None."""
    import tensorflow_datasets as tfds

    name, data_dir = params.get("dataset", "mnist"), params.get("data_dir") or DATA_DIR
    info = tfds.builder(name, data_dir=data_dir).info
    for split in info.splits.values():
        for path, expected in zip(split.filepaths, split.shard_lengths, strict=True):
            count, reason = _readable_records(str(path))
            if count != expected:
                message = ngettext(
                    "{path} is damaged: {count} of its {expected} record can be read "
                    "({reason}). Copy the file again, or prepare the dataset again.",
                    "{path} is damaged: {count} of its {expected} records can be read "
                    "({reason}). Copy the file again, or prepare the dataset again.",
                    expected,
                )
                return message.format(path=path, count=count, expected=expected, reason=reason)
    return None


def _readable_records(path: str) -> tuple[int, str]:
    """The number of readable records of a file, and the reason why the rest is unreadable."""
    count = 0
    try:
        for _record in tf.data.TFRecordDataset(path):
            count += 1
    except tf.errors.OpError as error:
        return count, error.message
    return count, _("it ends early")


def _same_size(dataset: tf.data.Dataset, info: Any, size: tuple[int, int] | None) -> Any:
    if size is not None:
        return dataset.map(
            lambda image, label: (tf.cast(tf.image.resize(image, size), tf.uint8), label)
        )
    shape = dataset.element_spec[0].shape
    if not shape.is_fully_defined():
        message = _(
            "The images of {dataset!r} differ in size ({shape}), so they cannot be batched. "
            "Pass one size, as in {example}."
        )
        example = 'params={"image_size": (64, 64)}'
        raise DataError(message.format(dataset=info.name, shape=shape, example=example))
    return dataset


def _load_error(name: str, data_dir: str | Path, split: str, error: Exception) -> DataError:
    for path in sorted(Path(data_dir).glob(f"{name}/**/*.json")):
        try:
            json.loads(path.read_text("utf-8"))
        except ValueError as reason:
            message = _(
                "{path} is damaged ({reason}). Copy the file again, or delete its folder and "
                "prepare the dataset again."
            )
            return DataError(message.format(path=path, reason=reason))
    message = _(
        "TensorFlow Datasets cannot load split {split!r} of {dataset!r} from {data_dir}: "
        "{reason} Check the name and data_dir. Nothing is downloaded here: prepare the dataset "
        "first, on a machine with internet access, with {code}."
    )
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(
        message.format(
            split=split,
            dataset=name,
            data_dir=data_dir,
            reason=first_line,
            code="tfds.builder(name, data_dir=...).download_and_prepare()",
        )
    )
