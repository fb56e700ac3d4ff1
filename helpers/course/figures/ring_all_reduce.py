"""The state of a ring all-reduce after each of its rounds."""

from __future__ import annotations

import math

from helpers.course.charts.svg import Drawing
from helpers.course.figures import elements as p
from helpers.course.figures.ring import State, Terms, Transfer, rounds, state_after, transfers
from helpers.course.figures.text_metrics import BOLD, PLAIN, TEXT
from helpers.i18n import _, join_clauses, join_items, labeled, ngettext

MIN_WORKERS, MAX_WORKERS = 2, 6  # workers
WIDTH, HEAD, ROW = 140, 24, 18  # a worker's width, and the heights of its name and of a part
NUMBER = 20  # the width of a part's number
STRIP, CAPTION, TOP = 18, 58, 84  # levels of the rounds, the caption and the first workers
BETWEEN = 52  # the height between two rows of workers
CHIP, CHIP_WIDTH = 18, 114  # the size of a transferred part
PITCH = 288  # the distance between neighbors in a row


def ring_all_reduce(workers: int = 4, round: int = 0) -> Drawing:
    """The sums that each worker holds after some rounds, and the transfers of the next round.

    Args:
      workers: N, the number of workers, from 2 to 6.
      round: the number of finished rounds, from 0 to 2(N-1).

    Raises:
      ConfigError: a number is outside its range.
    """
    p.check_range("workers", workers, MIN_WORKERS, MAX_WORKERS)
    p.check_range("round", round, 0, rounds(workers))
    state = state_after(workers, round)
    corners = _corners(workers)
    moves = transfers(workers, round) if round < rounds(workers) else []
    style = p.GRADIENT if round < workers - 1 else p.SUM
    parts = [_strip(workers, round), _caption(workers, round)]
    for number, corner in enumerate(corners):
        sent = next((move.part for move in moves if move.sender == number), None)
        parts.append(_worker(corner, number, state[number], sent, style))
    for move in moves:
        content = labeled(move.part, _sum(state[move.sender][move.part]))
        parts.append(_travel(corners, move, content, style))
    height = max(y for _x, y in corners) + _height(workers) + 2
    return p.figure(height, parts, _label(workers, round, state))


def _height(workers: int) -> float:
    """The height of a worker, which has one part per worker of the ring."""
    return HEAD + workers * ROW + 6


def _corners(workers: int) -> list[p.Point]:
    """The upper left corners of the workers, clockwise, in two rows for three or more workers."""
    upper = 2 if workers == 2 else math.ceil(workers / 2)
    corners = []
    for k in range(workers):
        row, place = divmod(k, upper)
        count = workers - upper if row else upper
        shift = (place - (count - 1) / 2) * PITCH * (-1 if row else 1)
        y = TOP + row * (_height(workers) + BETWEEN)
        corners.append((p.WIDTH / 2 + shift - WIDTH / 2, y))
    return corners


def _strip(workers: int, round: int) -> str:
    """The rounds of both halves: finished rounds are filled, the next one has a thick edge."""
    each = p.WIDTH / rounds(workers)
    half = p.WIDTH / 2
    parts = [
        p.note(0, 8, _("reduce-scatter: add"), half - 8, anchor="start", size=TEXT, weight=BOLD),
        p.note(
            half + 4, 8, _("all-gather: copy"), half - 8, anchor="start", size=TEXT, weight=BOLD
        ),
    ]
    for number in range(rounds(workers)):
        style = p.GRADIENT if number < workers - 1 else p.SUM
        shown = style if number < round else style._replace(tint=0, hatch=0)
        area = p.Area(number * each + 2, STRIP, each - 4, 18)
        parts.append(p.box(area, shown, str(number + 1)))
        if number == round:
            parts.append(p.outline(area, style))
    return "".join(parts)


def _caption(workers: int, round: int) -> str:
    """The next round, and the amount of data sent so far."""
    content = _next(workers, round)
    sent = _("sent by each: {share} of the data").format(share=f"{round}/{workers}")
    return p.note(0, CAPTION, content, 516, anchor="start", size=TEXT) + p.note(
        p.WIDTH, CAPTION, sent, 200, anchor="end", opacity=p.MUTED_OPACITY
    )


def _next(workers: int, round: int) -> str:
    """The description of the next round."""
    if round == rounds(workers):
        return _("Done: each worker holds every sum.")
    if round >= workers - 1:
        return _("Next: each worker sends one complete sum to its neighbor, which copies it.")
    return _("Next: each worker sends one part to its neighbor, which adds it.")


def _worker(
    corner: p.Point, number: int, held: tuple[Terms, ...], sent: int | None, style: p.Style
) -> str:
    """A worker and its parts, each filled in proportion to its sum."""
    x, y = corner
    name = _("worker {number}").format(number=number)
    parts = [
        p.frame(p.Area(x, y, WIDTH, _height(len(held))), p.WORKER._replace(tint=0.05)),
        p.title(p.Area(x, y, WIDTH, HEAD), name),
    ]
    left, width = x + NUMBER, WIDTH - NUMBER - 5
    for part, terms in enumerate(held):
        level = y + HEAD + part * ROW
        share = len(terms) / len(held)
        bar = p.SUM if share == 1 else p.GRADIENT
        weight = BOLD if share == 1 else PLAIN
        parts += [
            p.note(
                x + NUMBER / 2 + 1, level + ROW / 2, str(part), NUMBER - 2, opacity=p.MUTED_OPACITY
            ),
            p.fill(p.Area(left, level + 1, width * share, ROW - 2), bar),
            p.note(left + width / 2, level + ROW / 2, _sum(terms), width, weight=weight),
        ]
        if part == sent:
            parts.append(p.outline(p.Area(left, level + 1, width, ROW - 2), style))
    return "".join(parts)


def _travel(corners: list[p.Point], move: Transfer, content: str, style: p.Style) -> str:
    """An arrow from a worker to its neighbor, and the transferred part."""
    height = _height(len(corners))
    (x1, y1), (x2, y2) = ((x + WIDTH / 2, y + height / 2) for x, y in _ends(corners, move))
    if len(corners) == 2:  # both directions side by side
        shift = 20 if move.sender else -20
        y1, y2 = y1 + shift, y2 + shift
    sign = math.copysign(1, x2 - x1)
    if y1 == y2:
        start, tip = (x1 + sign * (WIDTH / 2 + 3), y1), (x2 - sign * (WIDTH / 2 + 3), y2)
        chip = (start[0] + tip[0]) / 2, y1 - CHIP / 2 - 5
        return p.arrow(start, tip, style=style) + _chip(chip, content, style)
    down = math.copysign(1, y2 - y1)
    slope = (x2 - x1) / abs(y2 - y1)

    def at(level: float) -> p.Point:
        """A point of the arrow, at a distance from its start."""
        return x1 + slope * level, y1 + down * level

    start, tip = at(height / 2 + 2), at(height / 2 + BETWEEN - 2)
    middle = at((height + BETWEEN) / 2)
    before, behind = (at((height + BETWEEN) / 2 + k * (CHIP / 2 + 1)) for k in (-1, 1))
    ways = p.line(start, before, style=style) + p.arrow(behind, tip, style=style)
    return ways + _chip(middle, content, style)


def _ends(corners: list[p.Point], move: Transfer) -> tuple[p.Point, p.Point]:
    return corners[move.sender], corners[move.receiver]


def _chip(middle: p.Point, content: str, style: p.Style) -> str:
    """A part in transfer: its number and the sum that it holds."""
    x, y = middle[0] - CHIP_WIDTH / 2, middle[1] - CHIP / 2
    return p.box(p.Area(x, y, CHIP_WIDTH, CHIP), style._replace(hatch=0), detail=content)


def _sum(terms: Terms) -> str:
    """The values in a sum, named by the letters of their workers."""
    return "+".join("abcdef"[worker] for worker in sorted(terms))


def _label(workers: int, round: int, state: State) -> str:
    """The alternative text of the figure."""
    name = _("worker {number}")
    told = [
        labeled(name.format(number=worker), join_items(map(_sum, held)))
        for worker, held in enumerate(state)
    ]
    last = rounds(workers)
    label = ngettext(
        "Ring all-reduce after {round} of {rounds} round. The contents of the parts: "
        "{parts}. {next}",
        "Ring all-reduce after {round} of {rounds} rounds. The contents of the parts: "
        "{parts}. {next}",
        last,
    )
    found = {"parts": join_clauses(told), "next": _next(workers, round)}
    return label.format(round=round, rounds=last, **found)
