"""Wrong answers to the tasks of lesson 5."""

WRONG = {
    "server_of": {
        "deals out rows": """
def server_of(row, rows, shards, servers):
    return row % servers
""",
        "takes a shard for a server": """
def server_of(row, rows, shards, servers):
    return row * shards // rows
""",
        "gives a server neighbouring shards": """
def server_of(row, rows, shards, servers):
    return row * servers // rows
""",
    },
    "split_large": {
        "splits small ones too": """
def split_large(servers):
    return tf.distribute.experimental.partitioners.FixedShardsPartitioner(servers)
""",
        "leaves one shard, the default": """
def split_large(servers):
    return tf.distribute.experimental.partitioners.MinSizePartitioner(2**20)
""",
        "makes a shard of every megabyte": """
def split_large(servers):
    return tf.distribute.experimental.partitioners.MaxSizePartitioner(2**20)
""",
    },
    "run_steps": {
        "lets a worker run out of data": """
def run_steps(coordinator, make_dataset, step, steps):
    iterator = iter(coordinator.create_per_worker_dataset(make_dataset))
    losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps)]
    coordinator.join()
    return sum(coordinator.fetch(losses)) / steps
""",
        "returns the last loss": """
def run_steps(coordinator, make_dataset, step, steps):
    iterator = iter(coordinator.create_per_worker_dataset(lambda: make_dataset().repeat()))
    for _ in range(steps):
        loss = coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    return loss.fetch()
""",
        "hands out the steps to each worker": """
def run_steps(coordinator, make_dataset, step, steps):
    iterator = iter(coordinator.create_per_worker_dataset(lambda: make_dataset().repeat()))
    losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(2 * steps)]
    coordinator.join()
    return sum(coordinator.fetch(losses)) / len(losses)
""",
        "begins the data again for every step": """
def run_steps(coordinator, make_dataset, step, steps):
    dataset = coordinator.create_per_worker_dataset(make_dataset)
    losses = [coordinator.schedule(step, args=(iter(dataset),)) for _ in range(steps)]
    coordinator.join()
    return sum(coordinator.fetch(losses)) / steps
""",
        "reads before the steps are done": """
def run_steps(coordinator, make_dataset, step, steps):
    iterator = iter(coordinator.create_per_worker_dataset(lambda: make_dataset().repeat()))
    losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps)]
    return losses[0].fetch()
""",
    },
    "staleness": {
        "counts the workers at work": """
def staleness(log):
    busy, found = set(), []
    for worker, what in log:
        if what == "fetch":
            busy.add(worker)
        else:
            busy.remove(worker)
            found.append(len(busy))
    return found
""",
        "counts from the own last update": """
def staleness(log):
    updates, last, found = 0, {}, []
    for worker, what in log:
        if what == "update":
            found.append(updates - last.get(worker, 0))
            updates += 1
            last[worker] = updates
    return found
""",
        "counts the own update": """
def staleness(log):
    updates, fetched, found = 0, {}, []
    for worker, what in log:
        if what == "fetch":
            fetched[worker] = updates
        else:
            updates += 1
            found.append(updates - fetched[worker])
    return found
""",
    },
}

PARTLY = {
    "server_of": (
        1,
        """
def server_of(row, rows, shards, servers):
    return row // (rows // shards) % servers
""",
    ),
    "run_steps": (
        2,
        """
def run_steps(coordinator, make_dataset, step, steps):
    iterator = iter(coordinator.create_per_worker_dataset(lambda: make_dataset().repeat()))
    total = 0.0
    for _ in range(steps):
        total += coordinator.schedule(step, args=(iterator,)).fetch()
    return total / steps
""",
    ),
}
