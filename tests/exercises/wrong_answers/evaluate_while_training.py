"""Wrong answers to the tasks of lesson 6."""

WRONG = {
    "shared_accuracy": {
        "each worker for itself": """
def shared_accuracy(strategy, right, count):
    return right / count
""",
        "all that are right, of the own images": """
def shared_accuracy(strategy, right, count):
    rights = strategy.run(lambda: tf.constant(float(right)))
    return strategy.reduce("SUM", rights, axis=None) / count
""",
        "gives each its share of the sum": """
def shared_accuracy(strategy, right, count):
    counts = strategy.run(lambda: tf.constant(float(count)))
    return right / strategy.reduce("SUM", counts, axis=None)
""",
    },
    "to_keep": {
        "compares with the one before": """
def to_keep(evaluations, patience):
    if len(evaluations) > 1 and evaluations[-1][1] <= evaluations[-2][1]:
        return max(evaluations, key=lambda one: one[1])[0]
    return None
""",
        "takes the patience for evaluations": """
def to_keep(evaluations, patience):
    accuracies = [accuracy for _, accuracy in evaluations]
    best = accuracies.index(max(accuracies))
    return evaluations[best][0] if len(evaluations) - 1 - best >= patience else None
""",
        "counts from the last rise": """
def to_keep(evaluations, patience):
    rise = evaluations[0][0]
    for (_, before), (step, accuracy) in zip(evaluations, evaluations[1:]):
        rise = step if accuracy > before else rise
    best = max(evaluations, key=lambda one: one[1])[0]
    return best if evaluations[-1][0] - rise >= patience else None
""",
    },
    "evaluated": {
        "evaluates every one, in a queue": """
def evaluated(saved, seconds):
    return list(range(len(saved)))
""",
        "forgets what came while it was busy": """
def evaluated(saved, seconds):
    found, free = [], 0
    for checkpoint, moment in enumerate(saved):
        if moment >= free:
            found.append(checkpoint)
            free = moment + seconds
    return found
""",
        "goes on with the oldest": """
def evaluated(saved, seconds):
    found, free = [], 0
    for checkpoint, moment in enumerate(saved):
        free = max(free, moment) + seconds
        if free <= saved[-1] + seconds:
            found.append(checkpoint)
    return found
""",
    },
    "cheapest": {
        "is always late": """
def cheapest(images, rate, workers, order_seconds, save_seconds, may_be_late):
    waits = {
        "direct": images / rate,
        "distributed": images / rate / workers + order_seconds,
        "side-car": save_seconds,
    }
    return min(waits, key=waits.get)
""",
        "takes a side-car where it can": """
def cheapest(images, rate, workers, order_seconds, save_seconds, may_be_late):
    if may_be_late:
        return "side-car"
    distributed = images / rate / workers + order_seconds
    return "distributed" if distributed < images / rate else "direct"
""",
        "hands out at no cost": """
def cheapest(images, rate, workers, order_seconds, save_seconds, may_be_late):
    distributed = images / rate / workers
    return "side-car" if may_be_late and save_seconds < distributed else "distributed"
""",
    },
}

PARTLY = {
    "shared_accuracy": (
        1,
        """
def shared_accuracy(strategy, right, count):
    accuracies = strategy.run(lambda: tf.constant(right / count))
    return strategy.reduce("MEAN", accuracies, axis=None)
""",
    ),
    "to_keep": (
        2,
        """
def to_keep(evaluations, patience):
    best = max(evaluations, key=lambda one: one[1])[0]
    return evaluations[-1][0] if evaluations[-1][0] - best >= patience else None
""",
    ),
}
