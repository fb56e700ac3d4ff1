"""Wrong answers to the tasks of lesson 12."""

WRONG = {
    "ported": {
        "has no strategy": """
def ported(inputs, targets, per_worker):
    data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(per_worker)
    layers = [keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.SGD(0.05), "mse")
    model.fit(data, verbose=0)
    return model
""",
        "takes the strategy of one machine": """
def ported(inputs, targets, per_worker):
    data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(2 * per_worker)
    with tf.distribute.MirroredStrategy().scope():
        layers = [keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.SGD(0.05), "mse")
    model.fit(data, verbose=0)
    return model
""",
    },
    "shares": {
        "leaves out what does not divide": """
def shares(global_batch, workers):
    return [1 / (global_batch // workers * workers)] * workers
""",
        "has every example count alike in its worker alone": """
def shares(global_batch, workers):
    part, left = divmod(global_batch, workers)
    return [1 / (part + (worker < left)) for worker in range(workers)]
""",
    },
    "finished": {
        "leaves everything to the chief": """
def finished(model, data, path, is_chief):
    if is_chief:
        loss = model.evaluate(data, verbose=0)
        model.save(path)
        return loss
""",
        "tells the chief only": """
def finished(model, data, path, is_chief):
    loss = model.evaluate(data, verbose=0)
    if is_chief:
        model.save(path)
        return loss
""",
    },
}

PARTLY = {
    "ported": (
        1,
        """
def ported(inputs, targets, per_worker):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(per_worker)
    with strategy.scope():
        layers = [keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.SGD(0.05), "mse")
    model.fit(data, verbose=0)
    return model
""",
    ),
    "shares": (
        1,
        """
def shares(global_batch, workers):
    return [1 / global_batch] * workers
""",
    ),
    "finished": (
        2,
        """
def finished(model, data, path, is_chief):
    loss = model.evaluate(data, verbose=0)
    model.save(path if is_chief else path + ".other.keras")
    return loss
""",
    ),
}
