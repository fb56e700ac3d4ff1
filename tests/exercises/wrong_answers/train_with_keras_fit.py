"""Wrong answers to the tasks of lesson 3."""

WRONG = {
    "full_batches": {
        "makes the batch of one replica": """
def full_batches(numbers, per_replica, strategy):
    return numbers.batch(per_replica, drop_remainder=True)
""",
        "divides by the replicas": """
def full_batches(numbers, per_replica, strategy):
    return numbers.batch(per_replica // strategy.num_replicas_in_sync, drop_remainder=True)
""",
        "always has two replicas": """
def full_batches(numbers, per_replica, strategy):
    return numbers.batch(2 * per_replica, drop_remainder=True)
""",
    },
    "rate_and_steps": {
        "keeps the learning rate": """
def rate_and_steps(rate, batch, per_replica, workers, examples):
    return rate, examples // (per_replica * workers)
""",
        "multiplies by the workers": """
def rate_and_steps(rate, batch, per_replica, workers, examples):
    return rate * workers, examples // (per_replica * workers)
""",
        "scales with the batch of one worker": """
def rate_and_steps(rate, batch, per_replica, workers, examples):
    return rate * per_replica / batch, examples // per_replica
""",
    },
    "every_once": {
        "gives everything to everybody": """
def every_once(paths, global_batch):
    lines = tf.data.Dataset.from_tensor_slices(paths).flat_map(tf.data.TextLineDataset)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return lines.batch(global_batch).with_options(options)
""",
        "shards what is sharded already": """
def every_once(paths, global_batch):
    lines = tf.data.Dataset.from_tensor_slices(paths).flat_map(tf.data.TextLineDataset)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    lines = lines.shard(resolver.cluster_spec().num_tasks("worker"), resolver.task_id)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return lines.batch(global_batch).with_options(options)
""",
    },
    "resumed": {
        "saves into a new folder each time": """
def resumed(model, dataset, callbacks, folder, worker):
    backup = keras.callbacks.BackupAndRestore(tempfile.mkdtemp())
    model.fit(dataset, epochs=5, verbose=0, callbacks=[backup, *callbacks])
""",
        "saves and never restores": """
def resumed(model, dataset, callbacks, folder, worker):
    saving = keras.callbacks.ModelCheckpoint(folder + "/model.weights.h5", save_weights_only=True)
    model.fit(dataset, epochs=5, verbose=0, callbacks=[saving, *callbacks])
""",
        "believes the first run": """
def resumed(model, dataset, callbacks, folder, worker):
    backup = keras.callbacks.BackupAndRestore(folder)
    model.fit(dataset, epochs=5, initial_epoch=3, verbose=0, callbacks=[backup, *callbacks])
""",
    },
}

PARTLY = {
    "full_batches": (
        1,
        """
def full_batches(numbers, per_replica, strategy):
    return numbers.batch(per_replica * strategy.num_replicas_in_sync)
""",
    ),
    "rate_and_steps": (
        1,
        """
def rate_and_steps(rate, batch, per_replica, workers, examples):
    return rate * per_replica * workers / batch, examples // per_replica
""",
    ),
    "every_once": (
        2,
        """
def every_once(paths, global_batch):
    lines = tf.data.Dataset.from_tensor_slices(paths).flat_map(tf.data.TextLineDataset)
    return lines.batch(global_batch)
""",
    ),
    "resumed": (
        2,
        """
def resumed(model, dataset, callbacks, folder, worker):
    if worker == 0:
        callbacks = [keras.callbacks.BackupAndRestore(folder), *callbacks]
    model.fit(dataset, epochs=5, verbose=0, callbacks=callbacks)
""",
    ),
}
