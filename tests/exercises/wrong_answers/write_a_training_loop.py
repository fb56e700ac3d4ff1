"""Wrong answers to the tasks of lesson 4."""

WRONG = {
    "fed": {
        "makes global batches": """
def fed(numbers, global_batch, input_context):
    numbers = numbers.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return numbers.batch(global_batch)
""",
        "divides by the workers": """
def fed(numbers, global_batch, input_context):
    pipelines = input_context.num_input_pipelines
    numbers = numbers.shard(pipelines, input_context.input_pipeline_id)
    return numbers.batch(global_batch // pipelines)
""",
    },
    "last_batch": {
        "takes the mean of its own": """
def last_batch(losses):
    return tf.reduce_mean(losses)
""",
        "divides by the replicas": """
def last_batch(losses):
    return tf.reduce_mean(losses) / tf.distribute.get_strategy().num_replicas_in_sync
""",
        "leaves the size to TensorFlow": """
def last_batch(losses):
    return tf.nn.compute_average_loss(losses)
""",
        "divides by a full batch": """
def last_batch(losses):
    return tf.nn.compute_average_loss(losses, global_batch_size=8)
""",
    },
    "totals": {
        "takes the mean of everything": """
def totals(strategy, results):
    mean = {name: strategy.reduce("MEAN", value, axis=None) for name, value in results.items()}
    accuracy = mean["correct"] / mean["examples"]
    return {**mean, "accuracy": accuracy}
""",
        "believes the first replica": """
def totals(strategy, results):
    first = {name: strategy.experimental_local_results(v)[0] for name, v in results.items()}
    accuracy = first["correct"] / first["examples"]
    return {**first, "accuracy": accuracy}
""",
    },
    "until": {
        "decides by its own loss": """
def until(strategy, step, limit):
    steps = 0
    while True:
        losses = step()
        steps += 1
        loss = strategy.experimental_local_results(losses)[0]
        if loss < limit:
            return steps
""",
        "guesses the others' losses": """
def until(strategy, step, limit):
    steps = 0
    while True:
        [loss] = strategy.experimental_local_results(step())
        steps += 1
        if loss * strategy.num_replicas_in_sync < limit:
            return steps
""",
    },
}

PARTLY = {
    "fed": (
        2,
        """
def fed(numbers, global_batch, input_context):
    replicas = input_context.num_replicas_in_sync
    return numbers.shard(replicas, input_context.input_pipeline_id).batch(global_batch // replicas)
""",
    ),
    "last_batch": (
        2,
        """
def last_batch(losses):
    replica = tf.distribute.get_replica_context()
    own = tf.cast(tf.size(losses), tf.float32)
    return tf.reduce_mean(losses) * own / replica.all_reduce("SUM", own)
""",
    ),
    "totals": (
        1,
        """
def totals(strategy, results):
    total = {name: strategy.reduce("SUM", value, axis=None) for name, value in results.items()}
    return {**total, "accuracy": total["correct"] / total["examples"]}
""",
    ),
    "until": (
        2,
        """
def until(strategy, step, limit):
    steps = 0
    while True:
        loss = strategy.reduce("MEAN", step(), axis=None)
        steps += 1
        if loss < limit:
            return steps
""",
    ),
}
