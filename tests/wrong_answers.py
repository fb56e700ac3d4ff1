"""Plausible wrong answers to the tasks of the exercises: each stands for a misunderstanding."""

from __future__ import annotations

# By task: a name for what is misunderstood, and the code in place of the answer.
WRONG: dict[str, dict[str, str]] = {
    "third_worker": {
        "counts from 1": """
def third_worker(addresses):
    task = {"type": "worker", "index": 3}
    return json.dumps({"cluster": {"worker": addresses}, "task": task})
""",
        "lists only itself": """
def third_worker(addresses):
    task = {"type": "worker", "index": 0}
    return json.dumps({"cluster": {"worker": [addresses[2]]}, "task": task})
""",
        "returns a dict": """
def third_worker(addresses):
    return {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 2}}
""",
    },
    "shard": {
        "everybody reads everything": """
def shard(numbers, input_context):
    return numbers.shuffle(1000).batch(4)
""",
        "shuffles before it shards": """
def shard(numbers, input_context):
    numbers = numbers.shuffle(1000)
    if input_context:
        own = input_context.input_pipeline_id
        numbers = numbers.shard(input_context.num_input_pipelines, own)
    return numbers.batch(4)
""",
        "everybody takes the first part": """
def shard(numbers, input_context):
    if input_context:
        numbers = numbers.take(len(numbers) // input_context.num_input_pipelines)
    return numbers.shuffle(1000).batch(4)
""",
    },
    "scaled_loss": {
        "the mean of each worker": """
def scaled_loss(losses, global_batch):
    return tf.reduce_mean(losses)
""",
        "divides twice": """
def scaled_loss(losses, global_batch):
    return tf.reduce_mean(losses) / global_batch
""",
        "does not divide": """
def scaled_loss(losses, global_batch):
    return tf.reduce_sum(losses)
""",
    },
    "mended": {
        "mends only the index": """
mended = dict(broken)
mended["10.0.0.3"] = json.dumps({"cluster": first, "task": {"type": "worker", "index": 2}})
""",
        "mends only the order": """
mended = dict(broken)
mended["10.0.0.2"] = json.dumps({"cluster": first, "task": {"type": "worker", "index": 1}})
""",
        "gives each host a cluster of its own": """
task = {"type": "worker", "index": 0}
mended = {
    host: json.dumps({"cluster": {"worker": [f"{host}:2222"]}, "task": task}) for host in broken
}
""",
    },
    "save_every": {
        "forgets that any machine may fail": """
def save_every(save_seconds, machine_seconds, machines, step_seconds):
    return max(1, round((2 * save_seconds * machine_seconds) ** 0.5 / step_seconds))
""",
        "forgets the half": """
def save_every(save_seconds, machine_seconds, machines, step_seconds):
    return max(1, round((save_seconds * machine_seconds / machines) ** 0.5 / step_seconds))
""",
        "returns seconds": """
def save_every(save_seconds, machine_seconds, machines, step_seconds):
    return max(1, round((2 * save_seconds * machine_seconds / machines) ** 0.5))
""",
    },
    "record": {
        "adds": """
def record(recorded, number, amount):
    recorded.scatter_add(tf.IndexedSlices(amount, number))
""",
        "writes everywhere": """
def record(recorded, number, amount):
    recorded.assign(tf.zeros_like(recorded) + amount)
""",
        "counts in the first place": """
def record(recorded, number, amount):
    recorded.scatter_add(tf.IndexedSlices(amount, 0))
""",
    },
    "must_restart": {
        "everything ends the group": """
must_restart = {
    "a worker under MultiWorkerMirroredStrategy": True,
    "worker 0 under MultiWorkerMirroredStrategy": True,
    "a worker under ParameterServerStrategy": True,
    "a ps under ParameterServerStrategy": True,
    "the coordinator under ParameterServerStrategy": True,
}
""",
        "only chiefs matter": """
must_restart = {
    "a worker under MultiWorkerMirroredStrategy": False,
    "worker 0 under MultiWorkerMirroredStrategy": True,
    "a worker under ParameterServerStrategy": False,
    "a ps under ParameterServerStrategy": False,
    "the coordinator under ParameterServerStrategy": True,
}
""",
    },
    "count": {
        "saves and never restores": """
def count(folder, limit, report):
    total = tf.Variable(0)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(total=total), folder, max_to_keep=2)
    while total < limit:
        total.assign_add(1)
        report(int(total))
        manager.save()
""",
        "saves at the end": """
def count(folder, limit, report):
    total = tf.Variable(0)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(total=total), folder, max_to_keep=2)
    manager.restore_or_initialize()
    while total < limit:
        total.assign_add(1)
        report(int(total))
    manager.save()
""",
    },
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

# Answers that are right in part: the points they earn, and the code.
PARTLY: dict[str, tuple[float, str]] = {
    "shard": (
        2,
        """
def shard(numbers, input_context):
    own = input_context.input_pipeline_id
    return numbers.shard(input_context.num_input_pipelines, own).shuffle(1000).batch(4)
""",
    ),
    "scaled_loss": (
        2,
        "def scaled_loss(losses, global_batch): return tf.reduce_mean(losses) / 2\n",
    ),
    "save_every": (
        2,
        """
def save_every(save_seconds, machine_seconds, machines, step_seconds):
    return (2 * save_seconds * machine_seconds / machines) ** 0.5 / step_seconds
""",
    ),
    "count": (
        1,
        """
def count(folder, limit, report):
    total = tf.Variable(0)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(total=total), folder, max_to_keep=2)
    manager.restore_or_initialize()
    while total < limit:
        total.assign_add(1)
        report(int(total))
        if total % 25 == 0:
            manager.save()
""",
    ),
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
