"""Wrong answers to the tasks of lesson 8."""

WRONG = {
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
    "worker_batches": {
        "starts the epoch again": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    return data.batch(global_batch).map(lambda batch: batch[worker::workers])
""",
        "skips examples in place of batches": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    return data.skip(steps_done).batch(global_batch).map(lambda batch: batch[worker::workers])
""",
        "gives each worker a whole batch": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    return data.shard(workers, worker).batch(global_batch).skip(steps_done)
""",
        "lets workers take turns": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    return data.batch(global_batch).skip(steps_done).shard(workers, worker)
""",
        "counts the steps of this number of workers": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    each = global_batch // workers
    return data.skip(steps_done * each).shard(workers, worker).batch(each)
""",
        "lets every worker read everything": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    return data.batch(global_batch).skip(steps_done)
""",
        "lets one worker read everything": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    batches = data.batch(global_batch).skip(steps_done)
    return batches.map(lambda batch: batch if worker == 0 else batch[:0])
""",
        "repeats the data": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    batches = data.repeat().batch(global_batch).skip(steps_done)
    return batches.map(lambda batch: batch[worker::workers])
""",
    },
    "add_up": {
        "skips a call": """
def add_up(numbers, all_reduce):
    total = 0.0
    for number in numbers:
        if number < 0:
            continue
        total += all_reduce(number)
    return total
""",
        "stops at a damaged example": """
def add_up(numbers, all_reduce):
    total = 0.0
    for number in numbers:
        if number < 0:
            break
        total += all_reduce(number)
    return total
""",
        "calls once for each example that is not damaged": """
def add_up(numbers, all_reduce):
    good = [number for number in numbers if number >= 0]
    return sum(all_reduce(number) for number in good)
""",
        "adds damaged examples": """
def add_up(numbers, all_reduce):
    return sum(all_reduce(number) for number in numbers)
""",
        "adds only its own numbers": """
def add_up(numbers, all_reduce):
    return sum(number for number in numbers if number >= 0)
""",
        "adds the sum of all workers once for each number": """
def add_up(numbers, all_reduce):
    good = sum(number for number in numbers if number >= 0)
    return sum(all_reduce(good) for _ in numbers)
""",
    },
}

PARTLY = {
    "worker_batches": (
        2,
        """
def worker_batches(data, global_batch, worker, workers, steps_done):
    return data.shard(workers, worker).batch(global_batch // workers).skip(steps_done)
""",
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
}
