"""Wrong answers to the tasks of lesson 13."""

WRONG = {
    "state_bytes": {
        "forgets the gradients": """
def state_bytes(weights, slots, workers, stage):
    return weights * (4 + 4 * slots)
""",
        "counts numbers instead of bytes": """
def state_bytes(weights, slots, workers, stage):
    return weights * (2 + slots)
""",
        "divides everything": """
def state_bytes(weights, slots, workers, stage):
    return weights * (8 + 4 * slots) / workers
""",
    },
    "micro_batches": {
        "rounds down": """
def micro_batches(workers, bubble):
    return max(1, int((workers - 1) * (1 - bubble) / bubble) - 1)
""",
        "takes the share of the idle workers": """
def micro_batches(workers, bubble):
    return max(1, round((workers - 1) / bubble))
""",
    },
    "split_layers": {
        "splits the first matrix by rows": """
import numpy as np


def split_layers(first, second, workers):
    rows = np.array_split(first, workers)
    padded = []
    for number, part in enumerate(rows):
        start = sum(len(one) for one in rows[:number])
        whole = np.zeros_like(first)
        whole[start : start + len(part)] = part
        padded.append(whole)
    return [(part, second) for part in padded]
""",
        "gives everything to all": """
def split_layers(first, second, workers):
    return [(first, second)] * workers
""",
    },
}

PARTLY = {
    "state_bytes": (
        2,
        """
def state_bytes(weights, slots, workers, stage):
    return weights * (8 + 4 * slots)
""",
    ),
    "split_layers": (
        2,
        """
import numpy as np


def split_layers(first, second, workers):
    parts = [(first * 0, second)] * (workers - 1)
    return [(first, second), *parts]
""",
    ),
}
