"""Wrong answers to the tasks of lesson 2."""

WRONG = {
    "held": {
        "divides the model between the replicas": """
def held(strategy, sizes, devices):
    return [sum(sizes) / devices] * devices
""",
        "keeps one copy on the first device": """
def held(strategy, sizes, devices):
    return [sum(sizes)] + [0] * (devices - 1)
""",
        "deals variables out to replicas": """
def held(strategy, sizes, devices):
    return [sum(sizes[device::devices]) for device in range(devices)]
""",
    },
    "pick": {
        "looks at its own devices first": """
def pick(cluster, devices):
    if len(devices) > 1:
        return tf.distribute.MirroredStrategy(devices)
    if len(cluster.get("worker", [])) > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.get_strategy()
""",
        "does nothing for several workers": """
def pick(cluster, devices):
    return tf.distribute.OneDeviceStrategy(devices[0])
""",
    },
    "train_all": {
        "has only the loss under the scope": """
def train_all(strategy, dataset):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    with strategy.scope():
        loss = keras.losses.MeanSquaredError()
    model.compile(keras.optimizers.SGD(0.3), loss)
    model.fit(dataset, epochs=5, steps_per_epoch=20, verbose=0)
    return model
""",
        "makes the variables after the scope": """
def train_all(strategy, dataset):
    with strategy.scope():
        layer = keras.layers.Dense(1)
    model = keras.Sequential([layer])
    model.compile(keras.optimizers.SGD(0.3), loss="mse")
    model.fit(dataset, epochs=5, steps_per_epoch=20, verbose=0)
    return model
""",
        "opens another scope": """
def train_all(strategy, dataset):
    with tf.distribute.get_strategy().scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.3), loss="mse")
    model.fit(dataset, epochs=5, steps_per_epoch=20, verbose=0)
    return model
""",
    },
    "strategy_for": {
        "counts machines and nothing else": """
strategy_for = {
    "A": "MirroredStrategy",
    "B": "MultiWorkerMirroredStrategy",
    "C": "MultiWorkerMirroredStrategy",
    "D": "MultiWorkerMirroredStrategy",
    "E": "TPUStrategy",
}
""",
        "takes the CPU of one machine for eight": """
strategy_for = {
    "A": "MirroredStrategy",
    "B": "MultiWorkerMirroredStrategy",
    "C": "ParameterServerStrategy",
    "D": "CentralStorageStrategy",
    "E": "TPUStrategy",
}
""",
    },
}

PARTLY = {
    "held": (
        2,
        """
def held(strategy, sizes, devices):
    if strategy == "MirroredStrategy":
        return [sum(sizes)] * devices
    if strategy == "CentralStorageStrategy":
        return [0] * devices
    return [sum(sizes) / devices] * devices
""",
    ),
    "pick": (
        2,
        """
def pick(cluster, devices):
    if cluster:
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.MirroredStrategy(devices)
""",
    ),
    "train_all": (
        1,
        """
def train_all(strategy, dataset):
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), loss="mse")
    model.fit(dataset, epochs=5, steps_per_epoch=20, verbose=0)
    return model
""",
    ),
}
