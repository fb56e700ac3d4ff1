"""The memory of a worker by part, for each ZeRO stage, by the formulas of `memory_planner`."""

from __future__ import annotations

from helpers import labels
from helpers.course.charts.plot import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    WIDTH,
    Key,
    band,
    legend,
    text_width,
)
from helpers.course.charts.svg import Drawing, straight_line, text
from helpers.course.memory_planner import STAGES, MemoryPlan, dense, plan
from helpers.course.simulations.controls import buttons, format_value, slider
from helpers.course.simulations.number_format import byte_size, significant
from helpers.course.simulations.simulation import Simulation, View
from helpers.i18n import _, join_phrases, join_sentences

WIDTHS = 256, 512, 1024, 2048, 4096, 8192, 16384
LAYERS = 2, 4, 8, 16, 32, 64, 128
BATCHES = 1, 8, 64, 256, 1024, 4096, 16384, 65536
WORKERS = tuple(2**power for power in range(11))  # 1 … 1024
DEVICES = 4, 8, 16, 24, 40, 80, 192  # GB
ROW, BAR, TOP = 44, 26, 30  # pixels
MARGIN, GAP = 6, 10  # of the drawing, and between a name and its bar, in pixels
COLORS = (BLUE, 0), (ORANGE, 1), (GREEN, 2), (PURPLE, 0), (BLUE, 1)  # with the kind of the filling


def simulation() -> Simulation:
    """The memory of a worker in each ZeRO stage, and the memory of a device."""
    return Simulation(
        _("Memory of a worker by ZeRO stage"),
        draw,
        {
            "width": slider(_("Units per layer"), WIDTHS, 8192),
            "layers": slider(_("Dense layers"), LAYERS, 32),
            "batch": slider(_("Examples per worker"), BATCHES, 1024),
            "workers": slider(_("Workers"), WORKERS, 8),
            "device": slider(_("Memory of a device, GB"), DEVICES, 24),
            "optimizer": buttons(
                _("Optimizer"), {"Adam": "adam", _("momentum"): "momentum", "SGD": "sgd"}
            ),
            "precision": buttons(
                _("Precision"), {"float32": "float32", "mixed_float16": "mixed_float16"}
            ),
        },
    )


def draw(
    *,
    width: int,
    layers: int,
    batch: int,
    workers: int,
    device: float,
    optimizer: str,
    precision: str,
) -> View:
    """A bar for each stage, the memory of the device, and a text about both.

    Args:
      width: the units of each of the `layers` dense layers, and the numbers of an example.
      batch: the examples of one worker.
      device: the memory of a worker's device in GB.
      optimizer, precision: as for `memory_planner.plan`.
    """
    network = [dense(width, width)] * layers
    options = {"optimizer": optimizer, "precision": precision, "workers": workers}
    plans = {stage: plan(network, width, batch, **options, stage=stage) for stage in STAGES}  # type: ignore[arg-type]
    count = sum(layer.weights for layer in network)
    return View(_drawing(plans, 1e9 * device), _sentence(plans, count, workers, 1e9 * device))


def _drawing(plans: dict[int, MemoryPlan], device: float) -> Drawing:
    """The bars, with a line at the bytes of the device."""
    longest = max([device, *(one.total for one in plans.values())])
    left = MARGIN + max(text_width(_stage_name(stage)) for stage in plans) + GAP
    sums = max(text_width(byte_size(one.total)) for one in plans.values())
    scale = (WIDTH - left - sums - 2 * MARGIN) / longest
    rows = [_row(stage, one, left, scale) for stage, one in plans.items()]
    bottom, limit = TOP + len(plans) * ROW, left + device * scale
    line = straight_line(limit, TOP - 8, limit, bottom - 8, opacity=0.8, dash="4 3")
    anchor = "start" if limit < WIDTH / 2 else "end"
    name = text(limit, TOP - 14, _("memory of the device"), anchor=anchor, weight=600)
    keys = [
        Key(part, color, kind=kind)
        for part, (color, kind) in zip(_part_names(), COLORS, strict=True)
    ]
    label = _("Memory of a worker: {stages}").format(
        stages=join_phrases(
            join_phrases([_stage_name(stage), byte_size(one.total)]) for stage, one in plans.items()
        )
    )
    body = "".join([*rows, line, name, legend(keys, left, bottom + 14)])
    return Drawing(WIDTH, bottom + 42, body, label)


def _stage_name(stage: int) -> str:
    return _("stage {number}").format(number=stage)


def _part_names() -> list[str]:
    return [_("weights"), _("gradients"), _("optimizer"), _("activations"), _("buffers")]


def _row(stage: int, one: MemoryPlan, left: float, scale: float) -> str:
    """The bar of a stage, with its name on the left and its sum on the right."""
    x, y = left, TOP + stage * ROW
    found = [text(x - GAP, y + 17, _stage_name(stage), anchor="end")]
    parts = one.weights, one.gradients, one.optimizer, one.activations, one.buffers
    for part, (color, kind) in zip(parts, COLORS, strict=True):
        if part:
            found.append(band(x, y, part * scale, BAR, color, kind=kind))
        x += part * scale
    return "".join([*found, text(x + MARGIN, y + 17, byte_size(one.total))])


def _sentence(plans: dict[int, MemoryPlan], count: int, workers: int, device: float) -> str:
    size = _("{weights} million weights on {workers}.").format(
        weights=significant(count / 1e6), workers=labels.workers(workers)
    )
    fitting = [stage for stage, one in plans.items() if one.total <= device]
    if plans[0].activations > device:
        verdict = _(
            "The activations alone do not fit, and ZeRO does not divide them: use fewer examples."
        )
    elif not fitting:
        verdict = _("No stage fits on the device: use more workers, or fewer examples.")
    elif fitting[0] == 0:
        verdict = _("Data parallelism without ZeRO fits on the device, with {size}.").format(
            size=byte_size(plans[0].total)
        )
    else:
        verdict = _("Stage {number} is the first one that fits on the device, with {size}.").format(
            number=format_value(fitting[0]), size=byte_size(plans[fitting[0]].total)
        )
    return join_sentences([size, verdict])
