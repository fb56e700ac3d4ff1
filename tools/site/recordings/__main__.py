"""Records runs of the fault-injection lab: python -m tools.site.recordings [NAME ...]

Each run trains for real and takes about half a minute.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import product
from pathlib import Path

from helpers.cluster.local import PER_TASK, LocalCluster
from helpers.cluster.prewarm import is_prewarming
from helpers.course import lazy_defaults
from helpers.course.panel import scenarios
from helpers.course.panel.choices import SAVE_STEPS
from helpers.errors import ConfigError
from helpers.params import with_defaults
from helpers.protocol.events import Event
from helpers.results.training_result import TrainingResult
from helpers.strategies import MULTI_WORKER, training_tasks
from tools.l10n import catalog
from tools.lessons.project import HELPERS, Project, ToolError
from tools.site.recordings import reasons, run_file
from tools.site.recordings.frames import COLLECTIVE
from tools.site.recordings.run_file import Recording, Setting

WORKERS = (2, 3)
TIMEOUTS = ((2.0, 5.0), (6.0, 12.0))  # for a heartbeat, and for a step, in seconds
STEPS = 400
POLL_INTERVAL = 0.1
MODEL_DIR = "model_dir"  # replaces the temporary folder in an error
SETTINGS = [
    Setting(scenario, workers, *timeouts)
    for scenario, workers, timeouts in product(scenarios.SCENARIOS, WORKERS, TIMEOUTS)
]


def main(argv: list[str] | None = None) -> int:
    """Records the named runs, by default all, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.site.recordings", description=__doc__)
    names = [setting.name for setting in SETTINGS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}")
    asked = parser.parse_args(argv).names
    if unknown := set(asked) - set(names):
        parser.error(f"There is no recording {min(unknown)!r}.")
    messages = _messages(Project.load(Path()))
    for setting in SETTINGS:
        if asked and setting.name not in asked:
            continue
        try:
            path = run_file.write(record(setting, messages))
        except ToolError as error:
            print(f"{setting.name}: {error}", file=sys.stderr)
            return 1
        print(f"{path}: {path.stat().st_size:,} bytes", flush=True)
    return 0


def record(setting: Setting, messages: list[str]) -> Recording:
    """Trains with a setting and its fault.

    Args:
      messages: the English messages of the catalog, one of which is the reason of a restart.
    """
    events: list[Event] = []
    clusters: list[dict[str, list[str]]] = []
    cluster = LocalCluster(
        setting.workers,
        collective=COLLECTIVE,
        network=PER_TASK,
        step_timeout=setting.step_timeout,
        heartbeat_timeout=setting.heartbeat_timeout,
    )
    tasks = training_tasks(MULTI_WORKER, setting.workers)
    play = scenarios.start(setting.scenario, tasks, cluster.inject_fault)

    def take(event: Event) -> None:
        events.append(dict(event))
        attempt = event.get("attempt", 0)
        if len(clusters) == attempt and cluster.processes:
            addresses = cluster.processes[0].config.cluster
            clusters.append({job: list(found) for job, found in addresses.items()})
        play(event)

    while is_prewarming():  # the import of TensorFlow, which readers need not watch
        time.sleep(POLL_INTERVAL)
    started = time.time()
    result = TrainingResult.for_run(MULTI_WORKER, setting.workers, COLLECTIVE)
    error = None
    with cluster:
        try:
            cluster.train(
                lazy_defaults.model_fn,
                lazy_defaults.input_fn,
                steps=STEPS,
                params=with_defaults({}),
                save_checkpoints_steps=SAVE_STEPS,
                on_event=take,
                progress=False,
                result=result,
            )
        except ConfigError as failure:
            said = str(failure).replace(result.model_dir, MODEL_DIR)
            error = reasons.parse(said, messages)
    return Recording(setting, clusters, run_file.select(events, started, messages), error)


def _messages(project: Project) -> list[str]:
    """The English messages of the helpers' catalog."""
    lang = project.released[0]
    found = (message.id for message in catalog.read(project.catalog(HELPERS, lang), lang))
    return [message for message in found if isinstance(message, str)]


if __name__ == "__main__":
    sys.exit(main())
