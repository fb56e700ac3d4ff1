"""The panel: choose workers and collective, press Run, watch real training.

A view of a `PanelState`, built from core ipywidgets (7.7 and 8). The actions are in
`helpers.course.panel.state`. The charts and texts are in the modules `curves` and `fragments`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]
from IPython.display import display

from helpers import labels
from helpers.cluster.prewarm import prewarm
from helpers.course import lazy_defaults
from helpers.course.panel import curves
from helpers.course.panel import fragments as texts
from helpers.course.panel.choices import CHOICES
from helpers.course.panel.cluster_diagram import MAX_BOXES
from helpers.course.panel.fault_controls import FaultControls
from helpers.course.panel.form import ChoiceForm
from helpers.course.panel.run import TaskStatus
from helpers.course.panel.stacks_view import StacksView
from helpers.course.panel.state import PanelState
from helpers.course.panel.status import Status
from helpers.course.panel.style import STYLE
from helpers.course.panel.widgets import TaskRow, action_row, close_tree, mime_bundle
from helpers.errors import ClusterError
from helpers.i18n import _, join_phrases, labeled
from helpers.protocol.events import FaultType
from helpers.results.progress import in_notebook
from helpers.results.training_result import TrainingResult
from helpers.strategies import communication_label

REPAINT_INTERVAL = 0.25
LOG_LINES = 40


class Panel(widgets.VBox):
    """Shows a training run on several workers, and controls it.

        panel = Panel()
        result = panel.run(workers=2, collective="RING")

    Args:
      model_fn, input_fn: the model and the data (default: the package's own).
      function: a function to call in every worker instead, as in `LocalCluster.run`. The panel
        shows its reports (`helpers.keras_callbacks.StepReportCallback`).
      keras: the Keras version of that function, 2 or 3 (default: as in `LocalCluster.run`).
      charts: names in `helpers.course.panel.curves.CHARTS`: "loss", "speed", "accuracy" (of each
        evaluation), "staleness" (of asynchronous steps), "speed-up" (of finished runs).
      controls: the names of the choices to show (default: all). The other choices are fixed.
      fault_injection: whether the panel has a fault-injection lab.
      choices: the choices of `PanelState`: strategy, workers, collective, batch_size,
        learning_rate, epochs or steps, evaluator, scenario. A function has only workers, collective
        and scenario.

    Attributes:
      state: the `PanelState` behind it.

    Raises:
      ConfigError: a chart, a control, a choice or its value is unknown.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any] = lazy_defaults.model_fn,
        input_fn: Callable[..., Any] = lazy_defaults.input_fn,
        *,
        function: Callable[..., Any] | None = None,
        keras: int | None = None,
        charts: Sequence[str] = curves.DEFAULT_CHARTS,
        controls: Sequence[str] | None = None,
        fault_injection: bool = False,
        **choices: Any,
    ) -> None:
        self.charts = curves.validate_charts(charts)
        choices |= {"function": function, "keras": keras, "fault_injection": fault_injection}
        self.state = PanelState(model_fn, input_fn, **choices)
        prewarm(keras=self.state.keras if function else 2)
        self._lock = threading.RLock()
        self._painter: threading.Thread | None = None
        self._handle: Any = None
        self._blocking = False  # a cell waits, so the kernel handles no clicks
        self._make_widgets(controls)
        super().__init__(self._children())
        self.add_class("mwl-panel")
        self._connect()
        self.paint()

    def run(self, **choices: Any) -> TrainingResult:
        """Shows the panel, trains, and waits for the end. An interrupt stops the workers.

        Raises:
          HelpersError: as `LocalCluster.train`.
        """
        with self._cell_running():
            self.launch(**choices)
            return self.state.wait()

    def sweep(self, **several: Iterable[Any]) -> list[TrainingResult]:
        """Trains with every combination of some choices, in consecutive runs, and waits.

            panel.sweep(workers=(1, 2), batch_size=(64, 256))

        Each run extends the table of runs and the speed-up chart. An interrupt or a stop ends the
        sweep.

        Args:
          several: the values of each choice, of which the last changes fastest.

        Returns: the results, in the order of the table.

        Raises:
          ConfigError: this machine cannot run one of the combinations. It is raised before the
            first run.
          HelpersError: as `LocalCluster.train`.
        """
        self.state.stop_and_wait()
        combinations = self.state.grid(several)
        results = []
        with self._cell_running():
            for number, combination in enumerate(combinations, 1):
                self.state.start(sweep_position=(number, len(combinations)), **combination)
                self.paint()
                if number == 1:
                    display(self)
                results.append(self.state.wait())
                self._join_painter()
        return results

    def launch(self, **choices: Any) -> None:
        """Shows the panel, starts training, and returns immediately."""
        self.state.start(**choices)
        self.paint()
        display(self)

    async def train(self, **choices: Any) -> TrainingResult:
        """Trains like `run` without blocking the kernel: `await panel.train()`.

        With ipykernel 7, the Stop button works in the meantime. An older ipykernel, as on Colab,
        handles no clicks while a cell runs. In this case, interrupt the cell, or use `launch`.
        """
        self.launch(**choices)
        try:
            while self.state.busy:
                await asyncio.sleep(REPAINT_INTERVAL / 2)
        except BaseException:
            self.state.stop_and_wait()
            raise
        finally:
            self._finish()
        return self.state.wait()

    def stop(self) -> None:
        """Stops the current run."""
        self.state.stop()

    def kill(self, task: str) -> None:
        """Kills the running process of a task, such as "worker 1", so that the group restarts."""
        with suppress(ClusterError):  # the task ended after its button was painted
            self.state.inject_fault(FaultType.KILL.value, task)

    def close(self) -> None:
        """Stops the run and removes the panel from the page."""
        if hasattr(self, "state"):  # otherwise its settings were rejected
            self.state.close()
            self.stacks_view.join()
            close_tree(self)

    def paint(self) -> None:
        """Updates every part, in the current language."""
        with self._lock:
            self.form.paint()
            self._paint_actions()
            self.stacks_view.paint(enabled=self._controls_enabled)
            self._paint_tasks()
            if self.fault_controls:
                self.fault_controls.paint(enabled=self._controls_enabled)
            self._paint_pictures()

    def __repr__(self) -> str:
        state, way = self.state, communication_label(self.state.strategy, self.state.collective)
        text = join_phrases([labels.workers(state.workers), way, state.status.word])
        if not state.busy and state.result and state.result.accuracy is not None:
            text = labeled(text, labels.accuracy(state.result.accuracy, ".2f"))
        return f"Panel({text})"

    def _ipython_display_(self, **unused: Any) -> None:
        self._handle = display(self._bundle(), raw=True, display_id=True)

    def _bundle(self) -> dict[str, Any]:
        """The widget and, for viewers without widgets, a picture of the finished run."""
        bundle = mime_bundle(self)
        run = self.state.run
        if run and not self.state.busy:
            has_story, place = self.fault_controls is not None, self.state.sweep_position
            bundle["text/html"] = texts.static_html(
                run, self.state.records, self.charts, sweep_position=place, has_story=has_story
            )
        return bundle

    @contextmanager
    def _cell_running(self) -> Iterator[None]:
        """Marks that a cell waits, so that an interrupt stops the run."""
        self._blocking = in_notebook()
        try:
            yield
        except KeyboardInterrupt:
            self.state.stop_and_wait()
            raise
        finally:
            self._blocking = False
            self._finish()

    def _finish(self) -> None:
        """Waits for the last repaint, and stores the picture of the run in the notebook."""
        self._join_painter()
        self.paint()
        if self._handle and not self.state.busy:
            self._handle.update(self._bundle(), raw=True)
        elif self.state.run:  # in a program, printed output cannot change
            print(self)

    def _join_painter(self) -> None:
        if self._painter:
            self._painter.join()

    @property
    def _controls_enabled(self) -> bool:
        """Whether a run is active and the kernel handles clicks in the meantime."""
        return self.state.status == Status.RUNNING and not self._blocking

    def _make_widgets(self, controls: Sequence[str] | None) -> None:
        self.form = ChoiceForm(self.state, self.paint, controls)
        self.run_button = widgets.Button(icon="play")
        self.stop_button = widgets.Button(icon="stop")
        self.stacks_view = StacksView(self.state, self.paint)
        self.tasks = widgets.VBox()
        self.fault_controls = FaultControls(self.state) if self.state.fault_injection else None
        self.code_button = widgets.ToggleButton(icon="code")
        self.code_button.add_class("mwl-quiet")
        names = "title summary message cluster charts runs code"
        self.html = {name: widgets.HTML() for name in names.split()}

    def _children(self) -> list[widgets.Widget]:
        html, stacks = self.html, self.stacks_view
        row = action_row(self.run_button, self.stop_button, stacks.button, html["summary"])
        upper = [widgets.HTML(STYLE), html["title"], self.form, row, html["message"]]
        lower = [html["cluster"], html["charts"], html["runs"], self.code_button, html["code"]]
        return [*upper, stacks, self.tasks, *filter(None, [self.fault_controls]), *lower]

    def _connect(self) -> None:
        self.run_button.on_click(lambda _button: self._press_run())
        self.stop_button.on_click(lambda _button: self.stop())
        self.code_button.observe(lambda _change: self.paint(), "value")
        self.state.observe(self._on_status, "status")
        self.state.observe(lambda _change: self.paint(), list(CHOICES))

    def _press_run(self) -> None:
        self.state.on_run_clicked()
        self.paint()

    def _on_status(self, change: Any) -> None:
        if change["new"] == Status.RUNNING:
            self.paint()  # immediately, so that Run is not clicked again
            self._painter = threading.Thread(target=self._repaint, daemon=True)
            self._painter.start()

    def _repaint(self) -> None:
        """Repaints four times a second during training, and once afterwards."""
        ended = threading.Event()
        while self.state.busy:
            self.paint()
            ended.wait(REPAINT_INTERVAL)
        self.paint()

    def _paint_actions(self) -> None:
        state = self.state
        phase = state.run.phase if state.run and state.status == Status.RUNNING else state.status
        self.html["title"].value = texts.title(phase)
        self.run_button.description, self.stop_button.description = _("Run"), _("Stop")
        self.run_button.tooltip = _("Start the workers and train")
        self.stop_button.tooltip = _("Stop training")
        self.run_button.disabled = state.busy
        self.stop_button.disabled = state.status != Status.RUNNING or self._blocking
        self.html["summary"].value = texts.summary(state.run, state.sweep_position)
        waits = state.status == Status.RUNNING and self._blocking
        self.html["message"].value = texts.message(state.run, state.error, waits)

    def _paint_tasks(self) -> None:
        tasks = self.state.tasks
        rows = self.tasks.children
        if [row.name for row in rows] != [task.name for task in tasks]:
            for row in rows:
                close_tree(row)
            rows = tuple(self._new_row(k, task) for k, task in enumerate(tasks))
            self.tasks.children = rows
            (self.tasks.add_class if len(rows) > MAX_BOXES else self.tasks.remove_class)("mwl-many")
        run = self.state.run
        total = run.result.total_steps if run else None
        processes = self.state.processes
        for row, task in zip(rows, tasks, strict=True):
            process = processes.get(task.name)
            alive = self._controls_enabled and process is not None and not process.has_exited
            log = process.log_tail(LOG_LINES) if process and row.unfolded else ""
            row.paint(task, total, alive=alive, log=log)

    def _new_row(self, number: int, task: TaskStatus) -> TaskRow:
        row = TaskRow(task.name, number, self.kill)
        row.details_button.observe(lambda _change: self.paint(), "value")
        return row

    def _paint_pictures(self) -> None:
        state = self.state
        result = state.run.result if state.run else None
        tasks = state.tasks
        way = communication_label(state.strategy, state.collective)
        lying = result.variables if result else None
        way = result.communication if result else way
        self.html["cluster"].value = texts.moving_cluster(tasks, way, lying)
        drawn = [curves.chart(name, result, state.records) for name in self.charts]
        self.html["charts"].value = texts.side_by_side(drawn)
        self._paint_records()

    def _paint_records(self) -> None:
        records = self.state.records
        curve = None if "speed-up" in self.charts else curves.speed_up_chart(records)
        picture = texts.side_by_side([curve]) if curve else ""
        self.html["runs"].value = texts.runs_table(records) + picture
        self.code_button.description = _("The same in Python")
        self.code_button.tooltip = _("Show the code for these choices")
        codes = [self.state.code(), self.state.code("program")] if self.code_button.value else []
        self.html["code"].value = texts.code_blocks(*codes)
