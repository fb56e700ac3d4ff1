"""The cost of a panel repaint in the kernel, early and late in a run of 4 or 64 workers.

    python -m benchmarks.repaint

A kernel without a page passes the events of a run to a panel, one step of every worker at a time,
and repaints. For each repaint it measures CPU time, function calls, and bytes sent to the page.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from benchmarks import RESULTS, ROOT
from benchmarks.report import page, publish
from helpers.course.panel.view import REPAINT_INTERVAL

WORKERS = 4, 64
EARLY, LATE = 300, 3000  # steps; the late one is reached after five minutes
REPAINTS = 100


@dataclass(frozen=True)
class Cost:
    """The cost of one repaint with `workers` workers, from `step` on, as medians."""

    workers: int
    step: int
    seconds: float
    calls: int
    sent: int

    @property
    def core(self) -> float:
        """The fraction of a core that repainting uses."""
        return self.seconds / REPAINT_INTERVAL


def measure(workers: int, repaints: int = REPAINTS) -> list[Cost]:
    """Measures early and late, in a separate kernel."""
    cell = nbformat.v4.new_code_cell(
        f"from benchmarks import repaint\nrepaint.in_kernel({workers}, {repaints})"
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    where = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    printed = "".join(output.text for output in notebook.cells[0].outputs if "text" in output)
    return [Cost(**found) for found in json.loads(printed)]


def in_kernel(workers: int, repaints: int) -> None:
    """Prints, as JSON, the numbers that `measure` reads."""
    from helpers.course.panel.run import Run, planned_tasks
    from helpers.course.panel.view import Panel
    from helpers.results.training_result import TrainingResult

    panel = Panel(workers=workers, collective="RING")
    tasks = planned_tasks(workers, evaluator=False)
    result = TrainingResult(workers, "RING", "", 0.0, total_steps=3 * LATE, global_batch=256)
    run = panel.state.run = Run(result, tasks, 64)

    def report(step: int) -> None:
        numbers = {"step": step, "loss": 2.3 / step, "examples_per_second": 20_000.0 + step}
        for task in tasks:
            about = {"event": "step", "task": task.name, "attempt": 0, "time": step / 10}
            result.add(about | numbers)
            run.add(about | numbers, [])

    sent = _count_what_is_sent()
    costs, step = [], 0
    for start in (EARLY, LATE):
        while step < start:
            step += 1
            report(step)
        panel.paint()
        seconds, calls, sizes = [], [], []
        for _repaint in range(repaints):
            step += 1
            report(step)
            del sent[:]
            began = time.process_time()
            panel.paint()
            seconds.append(time.process_time() - began)
            sizes.append(sum(sent))
            step += 1
            report(step)
            calls.append(_calls(panel.paint))
        middle = [statistics.median(numbers) for numbers in (seconds, calls, sizes)]
        costs.append(Cost(workers, start, middle[0], int(middle[1]), int(middle[2])))
    print(json.dumps([asdict(cost) for cost in costs]))


def _count_what_is_sent() -> list[int]:
    """Returns a list to which the size of every message to the page is appended."""
    from IPython import get_ipython

    session = get_ipython().kernel.session
    send, sizes = session.send, []

    def counted(*arguments: Any, **named: Any) -> Any:
        content = named.get("content", arguments[2] if len(arguments) > 2 else None)
        sizes.append(len(json.dumps(content, default=str)))
        return send(*arguments, **named)

    session.send = counted
    return sizes


def _calls(function: Callable[[], object]) -> int:
    """Returns how many functions are called while it runs, including functions written in C."""
    profile = cProfile.Profile()
    profile.runcall(function)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def report_text(costs: list[Cost]) -> str:
    """Formats the results as Markdown."""
    rows = [
        f"| {cost.workers} | {cost.step} | {cost.seconds * 1e3:.2f} | {cost.core:.1%} "
        f"| {cost.calls} | {cost.sent / 1000:.1f} |"
        for cost in costs
    ]
    columns = ["workers", "step", "CPU ms", "share of a core, at 4/s", "calls", "kB sent"]
    return page("A repaint of the panel", columns, rows)


def main() -> None:
    """Measures, prints, and writes results/repaint.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESULTS)
    output = parser.parse_args().output
    text = report_text([cost for workers in WORKERS for cost in measure(workers)])
    publish(text, output, "repaint.md")


if __name__ == "__main__":
    main()
