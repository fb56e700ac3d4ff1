"""Wrong answers to the tasks of lesson 11."""

_LAYERS = "tf.keras.Sequential([tf.keras.layers.Dense(3, kernel_initializer='identity')])"
_RATE = "tf.keras.optimizers.schedules.ExponentialDecay(0.5, 2, 0.8)"


def _migrated(batch: str, loss: str, rate: str = _RATE) -> str:
    return f"""
def migrated(strategy, dataset, batch_size):
    with strategy.scope():
        model = {_LAYERS}
        optimizer = tf.keras.optimizers.legacy.SGD({rate}, momentum=0.9)
        model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy({loss}))
    return model, dataset.batch({batch}).repeat()
"""


def _restored(body: str) -> str:
    return f"""
def restored(model, path):
    saved = tf.train.load_checkpoint(path)
    model.optimizer.iterations.assign(saved.get_tensor("global_step"))
    endings = {{"kernel": "weights", "bias": "biases"}}
{body}
"""


def _served(signature: str, inside: str, name: str = "serving_default") -> str:
    return f"""
def served(model, path):
    @tf.function(input_signature=[{signature}])
    def serve(pixels):
        {inside}
        odds = tf.nn.softmax(logits)
        return {{"class": tf.argmax(logits, 1), "score": tf.reduce_max(odds, 1)}}

    tf.saved_model.save(model, path, signatures={{"{name}": serve}})
"""


_PIXELS = 'tf.TensorSpec([None, 4], tf.uint8, name="pixels")'
_SCALED = "logits = model(tf.cast(pixels, tf.float32) / 255, training=False)"

WRONG = {
    "migrated": {
        "takes logits for probabilities": _migrated(
            "batch_size * strategy.num_replicas_in_sync", ""
        ),
        "takes the batch of a replica for that of all": _migrated("batch_size", "from_logits=True"),
        "mends only the learning rate": _migrated("batch_size", ""),
    },
    "restored": {
        "forgets what is not trained": _restored("""
    for weight in model.trainable_weights:
        layer, kind = weight.name.split(":")[0].split("/")
        weight.assign(saved.get_tensor(f"tower/{layer}/{endings.get(kind, kind)}"))
"""),
        "takes the momentum": _restored("""
    shapes = saved.get_variable_to_shape_map()
    for weight in model.weights:
        layer, kind = weight.name.split(":")[0].split("/")
        name = f"tower/{layer}/{endings.get(kind, kind)}"
        found = [other for other in sorted(shapes) if other.startswith(name)]
        weight.assign(saved.get_tensor(found[-1]))
"""),
        "looks at shapes only": _restored("""
    shapes = saved.get_variable_to_shape_map()
    for weight in model.weights:
        shape = weight.shape.as_list()
        name = next(name for name in sorted(shapes) if shapes[name] == shape)
        weight.assign(saved.get_tensor(name))
"""),
        "takes over the step alone": _restored(""),
    },
    "train_to": {
        "counts whole epochs": """
def train_to(model, data, max_steps):
    model.fit(data, epochs=-(-max_steps // len(data)), verbose=0)
""",
        "reads the data once": """
def train_to(model, data, max_steps):
    model.fit(data, steps_per_epoch=max_steps, verbose=0)
""",
        "takes steps for epochs": """
def train_to(model, data, max_steps):
    model.fit(data, epochs=max_steps, verbose=0)
""",
    },
    "served": {
        "exports the model as it is": """
def served(model, path):
    tf.saved_model.save(model, path)
""",
        "lets Keras choose the names": """
def served(model, path):
    model.export(path)
""",
        "wants scaled pixels of the client": _served(
            'tf.TensorSpec([None, 4], tf.float32, name="pixels")', "logits = model(pixels)"
        ),
        "serves under another name": _served(_PIXELS, _SCALED, "predict"),
    },
}

PARTLY = {
    "migrated": (
        2,
        _migrated("batch_size * strategy.num_replicas_in_sync", "from_logits=True", "0.5"),
    ),
    "restored": (
        2,
        """
def restored(model, path):
    saved = tf.train.load_checkpoint(path)
    endings = {"kernel": "weights", "bias": "biases"}
    for weight in model.weights:
        layer, kind = weight.name.split(":")[0].split("/")
        weight.assign(saved.get_tensor(f"tower/{layer}/{endings.get(kind, kind)}"))
""",
    ),
    "train_to": (
        1,
        """
def train_to(model, data, max_steps):
    model.fit(data.repeat(), steps_per_epoch=max_steps, verbose=0)
""",
    ),
    "served": (
        1,
        _served(_PIXELS, "logits = model(tf.cast(pixels, tf.float32), training=False)"),
    ),
}
