"""Wrong answers to the tasks of lesson 10."""

WRONG = {
    "speed_up": {
        "takes bytes for bits": """
def speed_up(compute, workers, gradient_bytes, bandwidth):
    exchange = 2 * (workers - 1) / workers * gradient_bytes / bandwidth
    return workers * compute / (compute + exchange)
""",
        "sends the gradients once": """
def speed_up(compute, workers, gradient_bytes, bandwidth):
    exchange = 8 * gradient_bytes / bandwidth
    return workers * compute / (compute + exchange)
""",
        "strong scaling": """
def speed_up(compute, workers, gradient_bytes, bandwidth):
    exchange = 8 * 2 * (workers - 1) / workers * gradient_bytes / bandwidth
    return compute / (compute / workers + exchange)
""",
    },
    "starving": {
        "accuses the one that waits": """
def starving(times):
    return max(range(len(times)), key=lambda worker: times[worker]["all-reduce"])
""",
        "accuses the one that computes": """
def starving(times):
    return max(range(len(times)), key=lambda worker: times[worker]["compute"])
""",
        "finds nobody": """
def starving(times):
    return None if times else 0
""",
    },
    "fast": {
        "only fetches ahead": """
def fast(images, decode, scale):
    return images.map(decode).map(scale).batch(8).prefetch(tf.data.AUTOTUNE)
""",
        "keeps what is not decoded": """
def fast(images, decode, scale):
    return images.cache().map(decode).batch(8).map(scale).prefetch(2)
""",
        "does not decode": """
def fast(images, decode, scale):
    return images.cache().batch(8).map(scale).prefetch(2)
""",
    },
}

PARTLY = {
    "starving": (
        2,
        """
def starving(times):
    return max(range(len(times)), key=lambda worker: times[worker]["input"])
""",
    ),
    "fast": (
        2,
        """
def fast(images, decode, scale):
    return images.map(decode).map(scale).batch(8).cache()
""",
    ),
}
