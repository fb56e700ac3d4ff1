"""The pictures of a run as a browser draws them, with its fonts, in every language."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, cycle, product
from pathlib import Path
from typing import Any

import pytest

from helpers import i18n
from helpers.course.charts import image
from helpers.course.panel import curves as panel_pictures
from helpers.course.panel import fragments as panel_texts
from helpers.course.panel.run import Run, RunRecord, planned_tasks
from helpers.course.panel.status import Status
from helpers.i18n import set_language
from helpers.results.history import Evaluation, Staleness, StepReport
from helpers.results.training_result import TrainingResult
from helpers.strategies import MULTI_WORKER, PARAMETER_SERVER, STRATEGIES
from helpers.tf_config import build_tf_configs
from tests.support import browser as b

pytestmark = b.MARKS

VIEW = "application/vnd.jupyter.widget-view+json"
WIDTHS = "all => all.map(image => image.complete ? image.naturalWidth : 0)"
FINISHED = [  # almost the longest possible legend
    RunRecord(workers, strategy, batch, False, Status.DONE, 0.98, 9_000.0 * workers, 0)
    for strategy in STRATEGIES
    for batch in (64, 256)
    for workers in (1, 2)
]
STATUSES = Status.RESTARTING, Status.EVALUATING, Status.WAITING
BOXES = """all => all.map(item => item.getBoundingClientRect())
    .map(box => [box.left, box.right, box.top, box.bottom])"""


@pytest.fixture(autouse=True)
def english_afterwards() -> Iterator[None]:
    yield
    set_language("en")


def test_pictures_of_a_notebook_that_was_just_cloned_are_drawn(
    browser: Any, tmp_path: Path
) -> None:
    """JupyterLab does not trust it before it is run, and shows only part of the stored outputs."""
    set_language("ko")
    run = finished_run(2, evaluator=True)
    lines = panel_texts.headline(run.result, run.batch_size)
    poster = image(panel_pictures.static_svg(run.result, run.tasks, lines), " · ".join(lines))
    chart = run.result.plot()
    stored: list[dict[str, Any]] = [
        {"text/plain": "Panel", VIEW: {"model_id": "0" * 32}, "text/html": poster},
        {"text/plain": repr(chart), "text/html": chart._repr_html_()},
    ]
    b.write_stored_notebook(tmp_path / "cloned.ipynb", stored)
    problems: list[str] = []
    with b.jupyterlab(tmp_path) as lab, b.page(browser, problems) as tab:
        b.open_notebook(tab, lab, "cloned.ipynb")
        images = tab.locator(".jp-OutputArea-output img")
        images.nth(1).wait_for()
        b.soon(lambda: min(images.evaluate_all(WIDTHS)) > 500, "two pictures with pixels")
        b.save_shot(tab, "lab-ko-cloned")
    assert not problems


@pytest.mark.parametrize("language", sorted(i18n.languages()))
def test_no_label_of_a_picture_runs_into_another(browser: Any, language: str) -> None:
    set_language(language)
    with b.page(browser, []) as tab:
        shapes = [(1, True), (2, False), (4, True), (5, False), (8, True)]
        for (workers, evaluator), strategy in product(shapes, (MULTI_WORKER, PARAMETER_SERVER)):
            run = finished_run(workers, evaluator=evaluator, strategy=strategy)
            lines = panel_texts.headline(run.result, run.batch_size)
            charts = panel_pictures.CHARTS
            tab.set_content(
                panel_pictures.static_svg(run.result, run.tasks, lines, charts, records=FINISHED)
            )
            *labels, frame = tab.locator("text, svg").evaluate_all(BOXES)[::-1]
            inside = [x for x in labels if x[0] >= frame[0] and x[1] <= frame[1]]
            assert len(inside) == len(labels) > 15
            assert not [pair for pair in combinations(labels, 2) if overlap(*pair)]


def finished_run(workers: int, *, evaluator: bool, strategy: str = MULTI_WORKER) -> Run:
    """A run after the events of a real one."""
    result = TrainingResult.for_run(strategy, workers, "RING")
    result.total_steps, result.global_batch = 2808, 128
    for points in result.history.values():
        points += [StepReport(k / 10, 7 * k, 2.3 / k, 18_000.0, 0) for k in range(1, 402)]
    accuracies = {2600: 0.97, 2700: 0.98, 2808: 0.981}
    result.evaluations += [Evaluation(step, {"accuracy": a}) for step, a in accuracies.items()]
    tasks = planned_tasks(workers, evaluator=evaluator, strategy=strategy)
    result.variables = {task.name: 2_777_184 for task in tasks}
    result.staleness = {
        task: [Staleness(7, 1.5, 0), Staleness(99, 2, 0)] for task in result.history
    }
    run = Run(result, tasks, 64)
    for task, status in zip(run.tasks, cycle(STATUSES), strict=False):
        task.status = status
        task.config = build_tf_configs(["127.0.0.1:40000"])[0]
    return run


def overlap(one: list[float], other: list[float]) -> bool:
    """Whether two boxes (left, right, top, bottom) overlap by more than a pixel."""
    left, right = max(one[0], other[0]), min(one[1], other[1])
    top, bottom = max(one[2], other[2]), min(one[3], other[3])
    return right - left > 1 and bottom - top > 3  # a line's box is higher than its letters
