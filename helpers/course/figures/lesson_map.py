"""The paths through the course, with their lessons in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from helpers.course.charts.svg import Drawing
from helpers.course.figures import elements as p
from helpers.course.figures.text_metrics import LINE, SMALL, wrap
from helpers.errors import ConfigError
from helpers.i18n import _, join_clauses, join_items

MAX_LESSONS, COLUMNS = 16, 4  # the maximum of all lessons, and of a row
NAME, GAP = 104, 24  # the widths of a path's name and between lessons
ROW_GAP, PATH_GAP = 18, 26  # the heights between rows of a path, and between paths
WIDTH = (p.WIDTH - NAME - GAP * (COLUMNS - 1)) / COLUMNS  # the width of a lesson


def lesson_map(
    paths: Mapping[str, Sequence[str]],
    then: Mapping[str, str] | None = None,
    optional: Sequence[str] = (),
) -> Drawing:
    """A row of lessons for each path, in reading order, with arrows from one to the next.

    Args:
      paths: the titles of the lessons of each path, at most 16 in all.
      then: the next path of each path that continues on another one.
      optional: the titles of lessons that are on no path.

    Raises:
      ConfigError: there are no lessons or too many, or a path continues on an unknown path.
    """
    then = then or {}
    titles = [title for lessons in paths.values() for title in lessons] + list(optional)
    p.check_range("lessons", len(titles), 1, MAX_LESSONS)
    if unknown := [path for pair in then.items() for path in pair if path not in paths]:
        message = _("{names} are not paths of the map. The paths are {paths}.")
        raise ConfigError(message.format(names=join_items(unknown), paths=join_items(paths)))
    height = _box_height(titles)
    parts: list[str] = []
    y = 0.0
    for path, lessons in paths.items():
        items = [*lessons, *([_next_path(then[path])] if path in then else [])]
        parts += _lane(path, items, y, height, box_last=path not in then)
        y += _lane_height(items, height) + PATH_GAP
    if optional:
        parts += _lane(_("Optional"), optional, y, height, arrows=False)
        y += _lane_height(optional, height) + PATH_GAP
    return p.figure(y - PATH_GAP, parts, _label(paths, then, optional))


def _lane(
    name: str,
    items: Sequence[str],
    top: float,
    height: float,
    *,
    arrows: bool = True,
    box_last: bool = True,
) -> Iterator[str]:
    """The name of a path and its lessons. The last item has no box if it is not a lesson."""
    yield p.row_label(top + height / 2, NAME - GAP, name)
    areas = [
        p.Area(
            NAME + k % COLUMNS * (WIDTH + GAP),
            top + k // COLUMNS * (height + ROW_GAP),
            WIDTH,
            height,
        )
        for k in range(len(items))
    ]
    for number, (area, item) in enumerate(zip(areas, items, strict=True), 1):
        if number == len(items) and not box_last:
            yield p.note(area.x + 4, area.middle[1], item, WIDTH - 4, anchor="start")
        else:
            yield p.box(area, p.PLACE, detail=item)
    for start, end in pairwise(areas) if arrows else ():
        yield _arrow(start, end)


def _arrow(start: p.Area, end: p.Area) -> str:
    """An arrow to the right or, at the end of a row, to the start of the next row."""
    if start.y == end.y:
        return p.arrow((start.x + start.width, start.middle[1]), (end.x - 1, end.middle[1]))
    between = end.y - ROW_GAP / 2
    return p.arrow(
        (start.middle[0], start.y + start.height),
        (start.middle[0], between),
        (end.middle[0], between),
        (end.middle[0], end.y - 1),
    )


def _lane_height(items: Sequence[str], height: float) -> float:
    rows = (len(items) - 1) // COLUMNS + 1
    return rows * height + (rows - 1) * ROW_GAP


def _box_height(titles: Sequence[str]) -> float:
    """The height of every lesson, which fits the title with the most lines."""
    lines = max(len(wrap(title, WIDTH - 2 * p.PADDING, SMALL)) for title in titles)
    return lines * SMALL * LINE + 12


def _next_path(path: str) -> str:
    return _("then the {path} path").format(path=path)


def _label(
    paths: Mapping[str, Sequence[str]], then: Mapping[str, str], optional: Sequence[str]
) -> str:
    """The alternative text of the map."""
    clauses = []
    for path, lessons in paths.items():
        items = [*lessons, *([_next_path(then[path])] if path in then else [])]
        message = _("{path} path: {lessons}")
        clauses.append(message.format(path=path, lessons=join_items(items)))
    if optional:
        clauses.append(_("Optional: {lessons}").format(lessons=join_items(optional)))
    return join_clauses(clauses)
