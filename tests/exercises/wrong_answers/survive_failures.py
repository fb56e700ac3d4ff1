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
