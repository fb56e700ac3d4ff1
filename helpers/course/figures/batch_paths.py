"""The path of a batch under each strategy, and the location of the variables."""

from __future__ import annotations

from itertools import product

from helpers.course.charts.svg import Drawing
from helpers.course.figures import elements as p
from helpers.course.figures.text_metrics import BOLD, PLAIN, SMALL, TEXT
from helpers.i18n import _, join_clauses, labeled

WIDTH, HEIGHT, GAP = 340, 166, 20  # size of a strategy, and space between two rows
EXAMPLES, CELL = 6, 22  # the examples of a batch, and the width of one
MIDDLE, LEFT, RIGHT = WIDTH / 2, 72, WIDTH - 72  # positions of processes and replicas
BATCH, REPLICA = 38, 106  # the levels of a batch and of the replicas
REPLICA_WIDTH, REPLICA_HEIGHT = 104, 48
FRAME, MARGIN = 28, 10  # space in a process above its replicas, and at their sides
WORKERS, SERVERS = 76, 134  # levels in the figure of parameter servers
ALONE = 150  # the inner width of a process with one replica and a longer name
ASIDE = 24  # the distance from the middle of a process to an arrow's start


def batch_paths() -> Drawing:
    """Four strategies: the examples of each replica, and the location of the variables."""
    contents = {
        "OneDeviceStrategy": _("one replica takes the batch"),
        "MirroredStrategy": _("replicas of one process share it"),
        "MultiWorkerMirroredStrategy": _("several processes share it"),
        "ParameterServerStrategy": _("each worker takes its own batches"),
    }
    bodies = [_one_device(), _mirrored(), _several_workers(), _servers()]
    parts = []
    for number, ((name, content), body) in enumerate(zip(contents.items(), bodies, strict=True)):
        row, column = divmod(number, 2)
        x, y = column * (p.WIDTH - WIDTH), row * (HEIGHT + GAP)
        title = p.note(0, 8, name, WIDTH, anchor="start", size=TEXT, weight=BOLD)
        below = p.note(0, 24, content, WIDTH, anchor="start", opacity=p.MUTED_OPACITY)
        parts.append(f'<g transform="translate({x} {y})">{title}{below}{body}</g>')
    bottom = 2 * HEIGHT + GAP
    parts.append(p.legend(bottom + 22, _legend()))
    ways = join_clauses(labeled(name, content) for name, content in contents.items())
    words = _(
        "{ways}. With MirroredStrategy and MultiWorkerMirroredStrategy, every replica has a copy "
        "of the variables, and an all-reduce of the gradients keeps the copies equal. With "
        "ParameterServerStrategy, each parameter server holds a part of the variables."
    )
    return p.figure(bottom + 34, parts, words.format(ways=ways))


def _legend() -> list[tuple[str, str]]:
    sample = [(0.0, 0.0), (30.0, 0.0)]
    return [
        (p.variable_box(15, 0, "w"), _("variables")),
        (p.arrow(*sample, style=p.GRADIENT, both=True), _("all-reduce")),
        (p.arrow(*sample, style=p.VARIABLES, both=True), _("values and gradients")),
    ]


def _one_device() -> str:
    frame = _process(MIDDLE, _("one process"), ALONE)
    return _batch(MIDDLE, 0) + _path(MIDDLE, MIDDLE) + frame + _replica(MIDDLE, 0)


def _mirrored() -> str:
    frame = _process(MIDDLE, _("one process"), RIGHT - LEFT + REPLICA_WIDTH)
    return _halves() + frame + _replica(LEFT, 0) + _replica(RIGHT, 1) + _all_reduce(0)


def _several_workers() -> str:
    parts = [_halves(), _all_reduce(MARGIN)]
    for k, x in enumerate((LEFT, RIGHT)):
        name = _("worker {number}").format(number=k)
        parts += [_process(x, name, REPLICA_WIDTH), _replica(x, k)]
    return "".join(parts)


def _servers() -> str:
    """Two workers, each with a batch, and two servers, each with a part of the variables."""
    parts = []
    for k, x in enumerate((LEFT, RIGHT)):
        worker = p.Area(x - REPLICA_WIDTH / 2, WORKERS, REPLICA_WIDTH, 26)
        name = _("worker {number}").format(number=k)
        parts += [
            _batch(x, k * EXAMPLES),
            p.arrow((x, BATCH + 20), (x, WORKERS - 2), style=p.BATCH),
            p.box(worker, p.WORKER, name, weight=BOLD),
            p.frame(worker._replace(y=SERVERS, height=32), p.SERVER),
            p.note(x - 24, SERVERS + 18, f"ps {k}", 44, size=TEXT, weight=BOLD),
            p.variable_box(x + 22, SERVERS + 18, "w₁" if k else "w₀"),
        ]
    side = {LEFT: -ASIDE, RIGHT: ASIDE}
    for start, end in product((LEFT, RIGHT), repeat=2):
        points = (start + side[end], WORKERS + 28), (end + side[start], SERVERS - 2)
        parts.append(p.arrow(*points, style=p.VARIABLES, both=True))
    return "".join(parts)


def _batch(x: float, first: int) -> str:
    names = [str(first + k) for k in range(EXAMPLES)]
    return p.cells(p.Area(x - EXAMPLES * CELL / 2, BATCH, EXAMPLES * CELL, 18), names)


def _halves() -> str:
    """A batch split between two replicas."""
    shift = EXAMPLES * CELL / 4
    ways = _path(MIDDLE - shift, LEFT) + _path(MIDDLE + shift, RIGHT)
    return _batch(MIDDLE, 0) + ways


def _path(start: float, end: float) -> str:
    return p.arrow((start, BATCH + 20), (end, REPLICA - FRAME - 2), style=p.BATCH)


def _process(x: float, name: str, inside: float) -> str:
    """A process centered at `x`, with room for its contents."""
    left, width = x - inside / 2 - MARGIN, inside + 2 * MARGIN
    top = REPLICA - FRAME
    area = p.Area(left, top, width, FRAME + REPLICA_HEIGHT + MARGIN)
    return p.frame(area, p.PLACE) + p.title(area._replace(height=FRAME), name)


def _replica(x: float, number: int) -> str:
    """A replica with its copy of the variables."""
    content = _("replica {number}").format(number=number)
    area = p.Area(x - REPLICA_WIDTH / 2, REPLICA, REPLICA_WIDTH, REPLICA_HEIGHT)
    return "".join(
        [
            p.frame(area, p.WORKER),
            p.title(area._replace(height=24), content, size=SMALL, weight=PLAIN),
            p.variable_box(x, REPLICA + 34, "w"),
        ]
    )


def _all_reduce(shift: float) -> str:
    """The arrow between two replicas, moved by `shift`."""
    level = REPLICA + 34
    edge = REPLICA_WIDTH / 2 + shift + 3
    return p.arrow((LEFT + edge, level), (RIGHT - edge, level), style=p.GRADIENT, both=True)
