"""Wrong answers to the tasks of lesson 1."""

WRONG = {
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
}

PARTLY = {
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
        """def scaled_loss(losses, global_batch): return tf.reduce_mean(losses) / 2
""",
    ),
}
