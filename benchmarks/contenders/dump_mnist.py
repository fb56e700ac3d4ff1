"""Writes the bundled MNIST as NumPy arrays, for programs without TensorFlow.

python -m benchmarks.contenders.dump_mnist FILE
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from helpers.course.data import load


def main() -> None:
    """Dumps both splits: images uint8 [examples, 28, 28, 1], labels int64 [examples]."""
    arrays: dict[str, Any] = {}
    for split in ("train", "test"):
        pairs = list(tfds.as_numpy(load(split)))
        arrays[f"{split}_images"] = np.stack([image for image, _ in pairs])
        arrays[f"{split}_labels"] = np.array([label for _, label in pairs])
    np.savez(sys.argv[1], **arrays)


if __name__ == "__main__":
    main()
