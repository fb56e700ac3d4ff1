"""The panel's widgets and pictures, without a browser."""

from __future__ import annotations

import asyncio
import functools
import html
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]
import pytest

import helpers.course.panel.state
from helpers import i18n
from helpers.course.charts.svg import AXIS, nice_ceiling
from helpers.course.panel import Panel, scenarios
from helpers.course.panel import choices as panel_choices
from helpers.course.panel import curves as panel_pictures
from helpers.course.panel import form as panel_form
from helpers.course.panel import fragments as panel_texts
from helpers.course.panel.cluster_diagram import cluster_diagram
from helpers.course.panel.run import Run, RunRecord, planned_tasks
from helpers.course.panel.status import Status
from helpers.errors import ConfigError, StoppedError
from helpers.i18n import number
from helpers.results.history import Evaluation, Staleness, StepReport
from helpers.results.training_result import TrainingResult
from tests.support.fake_cluster import FakeCluster
from tests.support.processes import wait_until

EVIL = '<img src=x onerror="alert(1)">&'
NEW_IN_8 = {"titles", "tabbable", "text_color", "font_size", "border_top", "tooltips"}


@pytest.fixture
def panel() -> Iterator[Panel]:
    made = Panel(collective="RING", batch_size=1024)
    yield made
    made.close()


def some_run(name: str = "worker 0") -> Run:
    """A run of two workers with a restart and an evaluation."""
    result = TrainingResult(2, "RING", "", 0.0, total_steps=468, global_batch=128)
    for attempt in (0, 1):
        for k in range(1, 400):
            point = StepReport(
                attempt * 50 + k / 10, k, 2.0 / k, 9000.0 if k > 1 else None, attempt
            )
            result.history.setdefault(name, []).append(point)
            result.history.setdefault("worker 1", []).append(point)
    result.restarts.append(f"{name} ended with signal 9 at step 200")
    result.evaluations.append(Evaluation(468, {"accuracy": 0.98}))
    tasks = planned_tasks(2, evaluator=True)
    tasks[0].name = name
    return Run(result, tasks, 64)


def test_the_run_button_trains_and_the_panel_says_how_well(panel: Panel) -> None:
    assert repr(panel) == "Panel(2 workers, RING, ready to run)"
    panel.run_button.click()
    assert panel.run_button.disabled
    assert wait_until(lambda: panel.state.status == Status.DONE, 60)
    assert wait_until(lambda: not panel.run_button.disabled, 5)
    assert 'data-status="done"' in panel.html["title"].value
    assert "<polyline" in panel.html["charts"].value
    assert repr(panel).startswith("Panel(2 workers, RING, done: accuracy 0.")
    assert [row.name for row in panel.tasks.children] == ["worker 0", "worker 1"]


@pytest.mark.usefixtures("replayed")
def test_run_waits_returns_the_result_and_leaves_a_picture(panel: Panel) -> None:
    result = panel.run()
    assert result.accuracy is not None
    bundle = panel._bundle()
    assert bundle["text/plain"] == repr(panel)
    assert bundle["text/html"].startswith('<img alt="2 workers · RING')
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == panel.model_id


@pytest.mark.usefixtures("replayed")
def test_the_stop_button_ends_an_awaited_run(panel: Panel) -> None:
    async def press_stop() -> None:
        while not panel.state.processes:
            await asyncio.sleep(0.02)
        assert not panel.stop_button.disabled
        panel.stop_button.click()

    async def both() -> None:
        await asyncio.gather(panel.train(epochs=20), press_stop())

    with pytest.raises(StoppedError):
        asyncio.run(asyncio.wait_for(both(), 30))
    assert panel.stop_button.disabled


@pytest.mark.usefixtures("replayed")
def test_the_kill_button_of_a_row_kills_that_worker(panel: Panel) -> None:
    panel.launch(epochs=50)
    row = panel.tasks.children[1]
    assert wait_until(lambda: not row.kill_button.disabled, 60)
    row.kill_button.click()
    run = panel.state.run
    assert run and wait_until(lambda: run.result.restarts != [], 30)
    assert "worker 1" in run.result.restarts[0]
    panel.stop()


def test_the_kill_button_injects_a_fault_that_the_report_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(helpers.course.panel.state, "LocalCluster", FakeCluster)
    panel = Panel(fault_injection=True)
    panel.launch()
    row = panel.tasks.children[1]
    assert wait_until(lambda: not row.kill_button.disabled, 10)
    row.kill_button.click()
    run = panel.state.run
    assert run and wait_until(lambda: run.result.restarts != [], 10)
    panel.close()
    killed, noticed = run.result.fault_log
    assert (killed.task, killed.message) == ("worker 1", "killed (SIGKILL)")
    assert noticed.message.startswith("detected 0.") and "signal 9" in noticed.message


def test_a_click_on_kill_after_the_end_of_the_process_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(helpers.course.panel.state, "LocalCluster", FakeCluster)
    panel = Panel()
    panel.launch()
    row = panel.tasks.children[1]
    assert wait_until(lambda: not row.kill_button.disabled, 10)
    panel.state.stop_and_wait()
    row.kill_button.click()
    assert not panel.state.run or panel.state.run.result.fault_log == []
    panel.close()


@pytest.mark.usefixtures("replayed")
def test_details_show_tf_config_and_log_and_stay_open(panel: Panel) -> None:
    row = panel.tasks.children[0]
    row.details_button.value = True
    panel.launch(epochs=50)
    assert wait_until(lambda: "&quot;index&quot;: 0" in row._details.value, 20)
    assert wait_until(lambda: "This process is worker 0" in row._details.value, 30)
    panel.stop()
    panel.state.stop_and_wait()
    assert panel.tasks.children[0] is row and row.unfolded


def test_a_choice_made_in_the_view_is_the_states_and_back(panel: Panel) -> None:
    form = panel.form
    form.options["workers"].buttons[3].value = True
    form.fields["batch_size"].value = 256
    form.fields["epochs"].value = 2
    assert (panel.state.workers, panel.state.batch_size, panel.state.epochs) == (3, 256, 2)
    assert panel.html["code"].value == ""
    panel.code_button.value = True
    assert "workers=3" in panel.html["code"].value
    panel.state.update(workers=1, learning_rate=0.1, batch_size=48)
    pressed = [value for value, b in form.options["workers"].buttons.items() if b.value]
    assert pressed == [1]
    assert form.fields["learning_rate"].value == 0.1
    assert form.fields["batch_size"].value == 48
    form.options["workers"].buttons[1].value = False  # pressing the chosen one keeps it
    assert form.options["workers"].buttons[1].value


def test_what_the_machine_cannot_do_is_disabled_with_the_reason(
    panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel_choices, "nvidia_gpus", lambda: 0)
    monkeypatch.setattr(panel_choices, "free_memory", lambda: 1.5e9)
    panel.paint()
    nccl = panel.form.options["collective"].buttons["NCCL"]
    four = panel.form.options["workers"].buttons[4]
    assert nccl.disabled and four.disabled
    assert nccl.tooltip in panel.form._notes.value and "1.5 GB" in four.tooltip
    with pytest.raises(ConfigError, match="GPU"):
        panel.run(collective="NCCL")


def test_text_from_outside_is_escaped_everywhere() -> None:
    run = some_run(EVIL)
    record = RunRecord(2, EVIL, 64, False, Status.DONE, 0.98, 9000.0, 1)
    alone = RunRecord(1, EVIL, 64, False, Status.DONE, 0.98, 5000.0, 0)
    curve = panel_pictures.speed_up_chart([alone, record])
    assert curve
    painted = [
        panel_texts.task_row(run.tasks[0], 0, 468),
        panel_texts.message(run, ValueError(EVIL), False),
        panel_texts.message(run, StoppedError(EVIL), False),
        panel_texts.task_details(run.tasks[0], EVIL, EVIL),
        panel_texts.runs_table([record]),
        panel_texts.code_blocks(EVIL, EVIL),
        panel_texts.choice_notes([EVIL]),
        panel_pictures.loss_chart(run.result).svg(),
        panel_pictures.speed_chart(run.result).svg(),
        cluster_diagram(run.tasks, EVIL).svg(),
        panel_pictures.static_svg(run.result, run.tasks, (EVIL, EVIL)),
        curve.svg(),
    ]
    assert not [part for part in painted if "<img" in part]


def test_pictures_are_well_formed_labelled_and_follow_the_theme() -> None:
    run = some_run()
    drawn = [
        panel_pictures.loss_chart(run.result).svg(),
        panel_pictures.speed_chart(None).svg(),
        cluster_diagram(run.tasks, "RING").svg(),
    ]
    for svg in drawn:
        root = ET.fromstring(svg)
        assert root.get("role") == "img" and root.get("aria-label")
        assert root.get("fill") == "currentColor"


def test_a_long_run_is_drawn_with_few_points_and_a_restart_breaks_the_line() -> None:
    svg = panel_pictures.speed_chart(some_run().result).svg()
    lines = [e for e in ET.fromstring(svg).iter() if e.tag.endswith("polyline")]
    assert len(lines) == 4  # two workers, two attempts
    assert all(len(line.attrib["points"].split()) <= 151 for line in lines)
    assert "restart" in svg


def test_many_workers_get_a_cell_each_and_few_curves() -> None:
    tasks = planned_tasks(64, evaluator=True)
    tasks[7].status = Status.LOST
    result = TrainingResult(64, "RING", "", 0.0, total_steps=10, global_batch=4096)
    for task in tasks[:64]:
        for step in (1, 2):
            numbers = {"step": step, "loss": 1.0, "examples_per_second": 100.0}
            about = {"event": "step", "task": task.name, "attempt": 0, "time": float(step)}
            result.add(about | numbers)
    picture = cluster_diagram(tasks, "RING")
    cells = [e for e in ET.fromstring(picture.svg()).iter() if e.get("class") == "mwl-box"]
    assert len(cells) == 65
    assert "64 workers" in picture.label and "lost: 1" in picture.label
    assert all(float(cell.attrib["x"]) + float(cell.attrib["width"]) <= 880 for cell in cells)
    svg = panel_pictures.loss_chart(result).svg()
    assert sum(e.tag.endswith("polyline") for e in ET.fromstring(svg).iter()) == 8


def drawn_svg(name: str, run: Run) -> ET.Element:
    return ET.fromstring(panel_pictures.chart(name, run.result, []).svg())


def dots(svg: ET.Element) -> int:
    return sum(e.tag.endswith("circle") and e.get("r") == "3.5" for e in svg.iter())


def test_accuracy_has_a_dot_for_each_evaluation_where_it_came() -> None:
    run = some_run()
    run.result.seconds = 40.0
    run.result.evaluations[:] = [
        Evaluation(k, {"accuracy": k / 400}, k / 10) for k in (100, 200, 400)
    ] + [Evaluation(400, {"loss": 1.0}, 41.0)]
    svg = drawn_svg("accuracy", run)
    assert dots(svg) == 3 and "100.0%" in "".join(svg.itertext())
    [line] = [e for e in svg.iter() if e.tag.endswith("polyline")]
    xs = [float(point.partition(",")[0]) for point in line.attrib["points"].split()]
    assert xs[1] - xs[0] == pytest.approx((xs[2] - xs[1]) / 2, abs=0.2)
    assert dots(ET.fromstring(panel_pictures.chart("accuracy", None).svg())) == 0


def test_staleness_has_a_curve_for_each_worker_that_told_of_it() -> None:
    run = some_run()
    assert "each step waits" in "".join(drawn_svg("staleness", run).itertext())
    run.result.strategy = "ParameterServerStrategy"
    assert "each step waits" not in "".join(drawn_svg("staleness", run).itertext())
    lags = [Staleness(k, 1.5, k // 50) for k in range(100)]
    run.result.staleness = {"worker 0": lags, "worker 1": lags[:20], "evaluator 0": lags}
    svg = drawn_svg("staleness", run)
    assert sum(e.tag.endswith("polyline") for e in svg.iter()) == 3  # two attempts, and one
    run.result.staleness["worker 0"] = [Staleness(0, 500.0, 0), *lags]
    assert "500" not in drawn_svg("staleness", run).itertext()  # the top of the axis


def test_each_chart_is_drawn_before_while_and_after_a_run() -> None:
    run = some_run()
    for name in panel_pictures.CHARTS:
        for result in (None, TrainingResult(2, "AUTO", "", 0.0), run.result):
            assert ET.fromstring(panel_pictures.chart(name, result).svg()).get("aria-label")
    one, five = (
        ET.fromstring(panel_pictures.static_svg(run.result, run.tasks, ("a", "b"), charts))
        for charts in (("loss",), panel_pictures.CHARTS)
    )
    assert float(five.attrib["height"]) - float(one.attrib["height"]) == 2 * (210 + 16)


def test_what_is_drawn_and_offered_can_be_chosen() -> None:
    panel = Panel(charts=("accuracy",), controls=("evaluator", "workers"), batch_size=32)
    assert panel.html["charts"].value.count("<svg") == 1
    assert [*panel.form.fields, *panel.form.options] == ["workers", "evaluator"]
    panel.state.update(workers=3)
    assert panel.form.options["workers"].buttons[3].value
    assert panel.state.batch_size == 32
    panel.close()
    steps = Panel(controls=("epochs", "strategy"), steps=70)
    assert [*steps.form.fields] == ["strategy", "steps"]
    assert steps.form.fields["steps"].value == 70
    steps.close()


def test_unknown_charts_and_offers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"charts='spped' is unknown.*speed-up"):
        Panel(charts=("loss", "spped"))
    with pytest.raises(ConfigError, match=r"controls='scenario' is unknown.*strategy"):
        Panel(controls=("scenario",))
    with pytest.raises(ConfigError, match=r"controls='epochs' is unknown.*workers, collective"):
        Panel(function=print, controls=("epochs",))


def test_a_panel_of_a_function_offers_workers_and_collective() -> None:
    panel = Panel(function=print, keras=2)
    assert [*panel.form.fields, *panel.form.options] == ["workers", "collective"]
    panel.code_button.value = True
    assert "cluster.run(print)" in panel.html["code"].value
    panel.close()


@pytest.mark.usefixtures("replayed")
def test_a_sweep_runs_each_combination_and_tells_which_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    panel = Panel(charts=("speed-up",), collective="RING", steps=6, evaluator=False)
    seen = set()
    panel.html["summary"].observe(lambda change: seen.add(change["new"]), "value")
    results = panel.sweep(workers=(1, 2), batch_size=(256, 512))
    shape = [(result.workers, result.global_batch) for result in results]
    assert shape == [(1, 256), (1, 512), (2, 512), (2, 1024)]
    assert [(r.workers, r.batch_size) for r in panel.state.records] == [
        (1, 256),
        (1, 512),
        (2, 256),
        (2, 512),
    ]
    for turn in range(1, 5):
        assert any(f"run {turn} of 4" in summary for summary in seen)
    assert panel.html["charts"].value.count("<polyline") == 3  # two batches, and the ideal
    stored = panel._bundle()["text/html"]
    assert stored.startswith('<img alt="run 4 of 4') and stored.count("<tr>") == 5
    panel.state.start(workers=1)
    panel.paint()
    assert " of 4" not in panel.html["summary"].value
    panel.close()


@pytest.mark.usefixtures("replayed")
def test_a_stop_ends_the_whole_sweep() -> None:
    panel = Panel(collective="RING", batch_size=1024, epochs=50)

    def stop_soon() -> None:
        assert wait_until(lambda: "worker 0" in panel.state.processes, 60)
        panel.stop()

    threading.Thread(target=stop_soon).start()
    with pytest.raises(StoppedError):
        panel.sweep(workers=(1, 2))
    assert [record.status for record in panel.state.records] == [Status.STOPPED]
    panel.close()


def test_boxes_tell_how_much_of_the_variables_lies_there() -> None:
    tasks = planned_tasks(2, evaluator=True, strategy="ParameterServerStrategy")
    svg = ET.fromstring(cluster_diagram(tasks, "x", {"ps 0": 2_777_184, "ps 7": 1}).svg())
    words = [text for text in svg.itertext() if "variables" in text]
    assert words == ["no variables"] * 3 + ["variables: 2.8 MB"]  # an evaluator is not told of
    assert "ps 0 not started (variables: 2.8 MB)" in svg.attrib["aria-label"]
    assert "variables" not in cluster_diagram(tasks, "x").svg()
    many = planned_tasks(15, evaluator=True)
    crowded = cluster_diagram(many, "x", {task.name: 43_000 for task in many}).svg()
    assert ">43.0 kB<" in crowded and ">variables: 43.0 kB<" not in crowded


def test_only_widgets_and_traits_that_colab_has_are_used(panel: Panel) -> None:
    def every(widget: Any) -> Iterator[Any]:
        yield widget
        for child in getattr(widget, "children", ()):
            yield from every(child)

    for widget in every(panel):
        assert widget._model_module == "@jupyter-widgets/controls"
        if int(widgets.__version__.split(".")[0]) >= 8:
            changed = {name for name in widget.keys if widget.trait_has_value(name)}
            own = {n for n in changed & NEW_IN_8 if getattr(widget, n) not in (None, (), "")}
            assert not own, (widget, own)


def test_every_button_says_what_it_does(panel: Panel) -> None:
    rows = panel.tasks.children
    buttons = [panel.run_button, panel.stop_button, panel.stacks_view.button, panel.code_button]
    buttons += [button for row in rows for button in (row.kill_button, row.details_button)]
    for options in panel.form.options.values():
        buttons += options.buttons.values()
    assert all(button.description and button.tooltip for button in buttons)
    assert all(field.description for field in panel.form.fields.values())


def test_numbers_on_axes_are_round() -> None:
    assert [nice_ceiling(value) for value in (2.3, 17_200, 0, float("nan"))] == [2.5, 20_000, 1, 1]
    assert [number(value, AXIS) for value in (12_500, 468, 1.25)] == ["12,500", "468", "1.25"]
    assert panel_form.BATCH_SIZES[2] == 64


def test_a_closed_panel_leaves_no_widget_behind() -> None:
    """ipywidgets keeps open widgets forever, together with their values."""
    kept = set(open_widgets())
    panel = Panel(workers=2)
    panel.state.workers = 4  # other rows replace the first ones
    panel.paint()
    assert len(set(open_widgets()) - kept) > 50
    panel.close()
    assert set(open_widgets()) == kept


def test_a_refused_press_is_told_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "virtual_hosts_supported", lambda: False)
    panel = Panel(fault_injection=True, scenario="partition")
    panel.run_button.click()
    assert 'role="alert"' in panel.html["message"].value
    assert "virtual network cables" in panel.html["message"].value
    panel.close()


def test_a_form_takes_what_the_choices_take() -> None:
    panel = Panel(learning_rate=100.0, epochs=200)
    assert (panel.form.fields["learning_rate"].value, panel.form.fields["epochs"].value) == (
        100,
        200,
    )
    panel.state.update(learning_rate=200.0, epochs=300)
    panel.paint()
    assert (panel.state.learning_rate, panel.state.epochs) == (200, 300)
    panel.close()


def test_steps_are_not_shown_where_epochs_count() -> None:
    panel = Panel(steps=60)
    assert panel.form.fields["steps"].layout.display == ""
    panel.state.update(epochs=2)
    panel.paint()
    assert panel.form.fields["steps"].layout.display == "none"
    panel.close()


@pytest.mark.parametrize("model_fn", [functools.partial(print, 1), lambda features: None])
def test_functions_without_a_name_are_called_by_what_they_are(model_fn: Any) -> None:
    panel = Panel(model_fn=model_fn)
    panel.code_button.value = True
    assert "        model_fn,\n" in panel.html["code"].value
    panel.close()


def open_widgets() -> list[str]:
    """The model IDs of the widgets that ipywidgets, 7 or 8, has registered."""
    known = widgets.Widget.widgets if widgets.__version__ < "8" else widgets.widget._instances
    return list(known)


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Panel]:
    """A panel whose workers sleep, and which has been launched."""
    monkeypatch.setattr(helpers.course.panel.state, "LocalCluster", FakeCluster)
    panel = Panel(fault_injection=True)
    assert panel.stacks_view.button.disabled
    panel.launch()
    yield panel
    panel.close()


def lines_of(part: str) -> list[str]:
    """The lines that open a stack."""
    return [html.unescape(line) for line in re.findall("<summary>(.*?)</summary>", part)]


def test_the_stacks_button_shows_a_folded_line_for_each_worker(sleeper: Panel) -> None:
    view = sleeper.stacks_view
    assert wait_until(lambda: not view.button.disabled, 10)
    assert view.current.value == view.report.value == ""
    view.button.click()
    assert wait_until(lambda: view.current.value != "", 10)
    assert lines_of(view.current.value) == [
        "worker 0 sleeps (train.py:1, in <lambda>), after step 7",
        "worker 1 sleeps (train.py:2, in <lambda>), after step 7",
    ]
    assert "<pre>  File &quot;/home/me/train.py&quot;, line 2" in view.current.value
    assert " open" not in view.current.value and "<lambda>" not in view.current.value
    sleeper.state.stop_and_wait()
    assert wait_until(lambda: view.button.disabled, 10)
    sleeper.launch()
    assert wait_until(lambda: view.current.value == "", 10)


def test_clicks_are_handled_while_stacks_are_collected(sleeper: Panel) -> None:
    cluster: Any = sleeper.state._cluster
    view = sleeper.stacks_view
    assert wait_until(lambda: not view.button.disabled, 10)
    cluster.answer.clear()
    for _click in range(2):
        view.button.click()
    assert view.button.disabled and view.current.value == ""
    sleeper.stop_button.click()
    assert wait_until(lambda: sleeper.state.status == Status.STOPPED, 10)
    cluster.answer.set()
    assert wait_until(lambda: len(lines_of(view.current.value)) == 2, 10)
    assert view.button.disabled


def test_open_lines_stay_open_until_other_stacks_replace_them(sleeper: Panel) -> None:
    view, values = sleeper.stacks_view, []
    view.current.observe(lambda change: values.append(change["new"]), "value")
    assert wait_until(lambda: not view.button.disabled, 10)
    view.button.click()
    assert wait_until(lambda: len(values) == 1, 10)
    for _repaint in range(3):
        sleeper.paint()
    assert len(values) == 1
    i18n.set_language("es")
    try:
        sleeper.paint()
        assert len(values) == 2
    finally:
        i18n.set_language("en")


def test_stacks_collected_before_a_restart_are_shown_and_stored(sleeper: Panel) -> None:
    view, row = sleeper.stacks_view, sleeper.tasks.children[1]
    assert wait_until(lambda: not row.kill_button.disabled, 10)
    row.kill_button.click()
    assert wait_until(lambda: view.report.value != "", 10)
    title, *lines = lines_of(view.report.value)
    assert title == "Stacks before restart 1" and len(lines) == 2
    sleeper.state.stop_and_wait()
    assert lines[1] in lines_of(sleeper._bundle()["text/html"])


def test_a_frozen_worker_is_shown_until_it_continues_or_is_replaced() -> None:
    result = TrainingResult.for_run("MultiWorkerMirroredStrategy", 2, "RING")
    run = Run(result, planned_tasks(2, evaluator=False), 64)
    frozen = run.tasks[1]
    common = {"task": "worker 1", "time": result.started, "attempt": 0}
    step = {"event": "step", "step": 9, "loss": 1.0, "examples_per_second": None, **common}
    pause = {"event": "fault_injected", "fault": "pause", "options": {}, **common}
    run.add(step, [])
    assert "mwl-moving" in panel_texts.moving_cluster(run.tasks, "RING", None)
    for event in (pause, step):  # a step that was reported before the freeze may arrive later
        run.add(event, [])
        assert frozen.shown_status == Status.FROZEN and run.tasks[0].shown_status != Status.FROZEN
    assert "mwl-moving" not in panel_texts.moving_cluster(run.tasks, "RING", None)
    run.add({**pause, "event": "fault_cleared"}, [])
    assert frozen.shown_status == Status.TRAINING
    run.add(pause, [])
    run.add({"event": "group_restart", "reason": "", **common}, [])
    assert [task.shown_status.value for task in run.tasks] == ["restarting", "lost"]
    assert not frozen.frozen
    run.add({**pause, "fault": "throttle"}, [])
    assert not frozen.frozen
