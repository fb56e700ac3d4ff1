"""The `TF_CONFIG` of each process of a cluster, and the connections between processes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from helpers.course.charts.svg import Drawing
from helpers.course.figures import elements as p
from helpers.course.figures.text_metrics import BOLD
from helpers.errors import ConfigError
from helpers.i18n import _, join_clauses, labeled, ngettext
from helpers.tf_config import PS, WORKER, TFConfig, build_tf_configs

MAX_WORKERS, MAX_SERVERS, MAX_PER_ROW = 5, 2, 5  # MAX_PER_ROW is a number of processes
WAYS, STAGE = 30, 13  # the top of the connections, and the space between two
OUTER, INNER = 52, 17  # a connection's end from a process's middle, and space between ends
MAX_WIDTH, APART = 240, 10  # the maximum distance of processes, and the space between two
NAME, BRACKET = 30, 36  # heights of a process's name, and of a bracket with its text
INDENT = 6  # the indentation of JSON in its box


def tf_config(workers: int = 2, ps: int = 0) -> Drawing:
    """The processes of a cluster, each with the common "cluster" part and its own "task" part.

    Parameter servers require a chief, which is the coordinator of `ParameterServerStrategy`.

    Args:
      workers: the number of workers, from 2 to 5.
      ps: the number of parameter servers, from 0 to 2.

    Raises:
      ConfigError: a number is outside its range, or there are more than five processes.
    """
    p.check_range("workers", workers, 2, MAX_WORKERS)
    p.check_range("ps", ps, 0, MAX_SERVERS)
    configs = _configs(workers, ps)
    count = len(configs)
    pitch = min(p.WIDTH / count, MAX_WIDTH)
    width = pitch - APART
    middles = [p.WIDTH / 2 + (k - (count - 1) / 2) * pitch for k in range(count)]
    ways, top = _ways(configs, middles)
    parts = [ways]
    cluster = _cluster_lines(configs[0])
    below = top + NAME + 8
    middle = below + len(cluster) * p.CODE + 8
    task = middle + BRACKET
    end = task + 3 * p.CODE + 8
    for config, x in zip(configs, middles, strict=True):
        parts.append(_process(config, x - width / 2, width, (top, below, task)))
    first, last = middles[0] - width / 2, middles[-1] + width / 2
    parts += [
        p.bracket(first, last, middle + 4, _("the same in every process")),
        p.bracket(first, last, end + 4, _("different in every process")),
    ]
    return p.figure(end + BRACKET - 8, parts, _label(configs))


def _configs(workers: int, ps: int) -> list[TFConfig]:
    """The `TF_CONFIG` of every process."""
    count = workers + ps + bool(ps)
    if count > MAX_PER_ROW:
        message = ngettext(
            "workers={workers} and ps={ps} add up to {count} process, including the chief. The "
            "figure has room for {most}: pass smaller numbers.",
            "workers={workers} and ps={ps} add up to {count} processes, including the chief. The "
            "figure has room for {most}: pass smaller numbers.",
            count,
        )
        raise ConfigError(message.format(workers=workers, ps=ps, count=count, most=MAX_PER_ROW))
    return build_tf_configs([f"host{k}:2222" for k in range(count)], chief=bool(ps), ps=ps)


def _cluster_lines(config: TFConfig) -> list[str]:
    """The "cluster" part as JSON, with one address per line."""
    lines = ['{"cluster": {']
    for job, addresses in config.cluster.items():
        lines.append(f'  "{job}": [')
        lines += [f'   "{address}",' for address in addresses]
        lines[-1] = lines[-1][:-1] + "],"
    lines[-1] = lines[-1][:-1] + "},"
    return lines


def _task_lines(config: TFConfig) -> list[str]:
    """The "task" part as JSON."""
    task = config.task
    return [' "task": {', f'  "type": "{task.type}",', f'  "index": {task.index}}}}}']


def _process(config: TFConfig, x: float, width: float, levels: Sequence[float]) -> str:
    """A process and its `TF_CONFIG`, in which its own address is marked."""
    top, below, task = levels
    style = p.SERVER if config.task.type == PS else p.WORKER
    cluster = _cluster_lines(config)
    own = next(k for k, line in enumerate(cluster) if f'"{config.address}"' in line)
    level = below + 4 + (own + 0.5) * p.CODE
    mark = f"M{x + INDENT + 5:.1f} {level - 4.5:.1f} v9 l8 -4.5 Z"  # in the indentation of the line
    return "".join(
        [
            p.box(p.Area(x, top, width, NAME), style, config.task.label, weight=BOLD),
            _snippet(x, below, width, cluster, p.PLACE._replace(corner=3)),
            f'<path d="{mark}" fill="{style.color}"/>',
            _snippet(x, task, width, _task_lines(config), style._replace(shelf=False, corner=3)),
        ]
    )


def _snippet(x: float, y: float, width: float, lines: Sequence[str], style: p.Style) -> str:
    frame = p.frame(p.Area(x, y, width, len(lines) * p.CODE + 8), style)
    return p.group(frame + p.code(x + INDENT, y + 4, lines))


def _ways(configs: Sequence[TFConfig], middles: Sequence[float]) -> tuple[str, float]:
    """The connections with a legend, and the top of the processes."""
    sample = [(0.0, 0.0), (30.0, 0.0)]
    if not configs[0].is_asynchronous:
        top = WAYS + 2 * STAGE
        entry = (p.arrow(*sample, style=p.GRADIENT, both=True), _("gradients: all-reduce"))
        return p.legend(8, [entry]) + _bus(middles, WAYS, top, p.GRADIENT), top
    entries = [
        (p.arrow(*sample, style=p.VARIABLES, both=True), _("values and gradients")),
        (p.arrow(*sample, style=p.WAIT), _("steps from the chief")),
    ]
    workers, servers = _places(configs, WORKER), _places(configs, PS)
    pairs = sorted(product(workers, servers), key=lambda pair: pair[1] - pair[0])
    top = WAYS + (len(pairs) + 2) * STAGE
    parts = [p.legend(8, entries), _bus(middles, WAYS, top, p.WAIT, source=0)]
    for stage, (worker, server) in enumerate(pairs):  # neighbors are lowest and outermost
        level = top - STAGE * (stage + 1.5)
        start = middles[worker] + OUTER - INNER * (server - servers[0])
        end = middles[server] - OUTER + INNER * (workers[-1] - worker)
        points = [(start, top - 2), (start, level), (end, level), (end, top - 2)]
        parts.append(p.arrow(*points, style=p.VARIABLES, both=True))
    return "".join(parts), top


def _places(configs: Sequence[TFConfig], job: str) -> list[int]:
    """The positions of a job's tasks in the row."""
    return [k for k, config in enumerate(configs) if config.task.type == job]


def _bus(
    middles: Sequence[float], level: float, top: float, style: p.Style, source: int | None = None
) -> str:
    """A line above all processes, with an arrow down to each one except its source."""
    parts = [p.line((middles[0], level), (middles[-1], level), style=style)]
    for k, x in enumerate(middles):
        draw = p.line if k == source else p.arrow
        parts.append(draw((x, level), (x, top - 2), style=style))
    return "".join(parts)


def _label(configs: Sequence[TFConfig]) -> str:
    """The alternative text of the figure."""
    told = [labeled(config.task.label, config.address) for config in configs]
    label = _(
        'The TF_CONFIG of each process. The part "cluster" is the same in every process and lists '
        'all addresses ({tasks}). The part "task" identifies the process itself. {links}'
    )
    links = _("Each worker connects to every other worker for the all-reduce.")
    if configs[0].is_asynchronous:
        links = _(
            "The chief assigns steps to the workers. Each worker fetches values from every "
            "parameter server and sends gradients to it."
        )
    return label.format(tasks=join_clauses(told), links=links)
