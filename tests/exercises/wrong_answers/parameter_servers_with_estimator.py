"""Wrong answers to the tasks of lesson 9."""

WRONG = {
    "whole_cluster": {
        "puts the evaluator into the cluster": """
def whole_cluster(addresses):
    tasks = [(job, index) for job, some in addresses.items() for index in range(len(some))]
    return [
        json.dumps({"cluster": addresses, "task": {"type": job, "index": index}})
        for job, index in tasks
    ]
""",
        "makes the chief worker 0": """
def whole_cluster(addresses):
    workers = addresses["chief"] + addresses["worker"]
    cluster = {"worker": workers, "ps": addresses["ps"]}
    tasks = [("worker", index) for index in range(len(workers))]
    tasks += [("ps", index) for index in range(len(addresses["ps"]))] + [("evaluator", 0)]
    return [
        json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
        for job, index in tasks
    ]
""",
        "numbers all tasks": """
def whole_cluster(addresses):
    cluster = {job: some for job, some in addresses.items() if job != "evaluator"}
    jobs = [job for job, some in addresses.items() for _ in some]
    return [
        json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
        for index, job in enumerate(jobs)
    ]
""",
    },
    "training_batches": {
        "mixes the epochs": """
def training_batches(examples, count, batch_size, epochs):
    return examples.repeat(epochs).shuffle(count).batch(batch_size)
""",
        "moves whole batches": """
def training_batches(examples, count, batch_size, epochs):
    return examples.batch(batch_size).shuffle(count).repeat(epochs)
""",
        "shuffles a little": """
def training_batches(examples, count, batch_size, epochs):
    return examples.shuffle(10).repeat(epochs).batch(batch_size)
""",
        "shuffles once": """
def training_batches(examples, count, batch_size, epochs):
    shuffled = examples.shuffle(count, reshuffle_each_iteration=False)
    return shuffled.repeat(epochs).batch(batch_size)
""",
        "drops the end of each epoch": """
def training_batches(examples, count, batch_size, epochs):
    return examples.shuffle(count).batch(batch_size, drop_remainder=True).repeat(epochs)
""",
    },
    "max_steps": {
        "divides by the tasks, as if they waited": """
def max_steps(examples, batch_size, tasks, epochs, asynchronous):
    return epochs * examples // (batch_size * tasks)
""",
        "lets every task read everything": """
def max_steps(examples, batch_size, tasks, epochs, asynchronous):
    return epochs * examples * (tasks if asynchronous else 1) // batch_size
""",
        "does not look who waits": """
def max_steps(examples, batch_size, tasks, epochs, asynchronous):
    return epochs * examples // batch_size
""",
    },
    "train_op": {
        "counts twice": """
def train_op(loss, variables):
    step = tf.compat.v1.train.get_global_step()
    optimizer = tf.keras.optimizers.legacy.SGD(0.1)
    optimizer.iterations = step
    return tf.group(optimizer.get_updates(loss, variables)[0], step.assign_add(1))
""",
        "has a counter of its own": """
def train_op(loss, variables):
    optimizer = tf.keras.optimizers.legacy.SGD(0.1)
    optimizer.iterations = tf.compat.v1.get_variable(
        "step", [], tf.int64, tf.compat.v1.zeros_initializer(), trainable=False
    )
    return optimizer.get_updates(loss, variables)[0]
""",
        "counts and does not train": """
def train_op(loss, variables):
    return tf.compat.v1.train.get_global_step().assign_add(1)
""",
    },
}

PARTLY = {
    "whole_cluster": (
        1,
        """
def whole_cluster(addresses):
    cluster = {job: some for job, some in addresses.items() if job != "evaluator"}
    return [
        json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
        for job, some in cluster.items()
        for index in range(len(some))
    ]
""",
    ),
    "training_batches": (
        2,
        """
def training_batches(examples, count, batch_size, epochs):
    return examples.shuffle(count).batch(batch_size).repeat(epochs)
""",
    ),
    "max_steps": (
        2,
        """
def max_steps(examples, batch_size, tasks, epochs, asynchronous):
    return epochs * examples / batch_size / (1 if asynchronous else tasks)
""",
    ),
}
