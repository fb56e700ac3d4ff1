"""A table of how Keras 3 works on several workers, with `helpers.keras_3`.

    python -m benchmarks.keras_3 --python .venv/bin/python [--python …] [--quick …]

Each interpreter has its own TensorFlow and Keras, and this package need not be installed there.
With `--quick` it runs only the cases that depend on a replaced function. Every cell has three runs,
by one, two and three workers, on the same data and from the same weights. It shows the larger
difference from one worker. The exit code is 1 if a case does not have the expected result.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import RESULTS
from benchmarks.keras_3.runs import DECIDING, verdicts, versions
from benchmarks.keras_3.verdict import AGREE, Answers, Verdict
from benchmarks.report import page, publish

GROUPS = (2, 3)  # group sizes that are compared with one worker


@dataclass(frozen=True)
class Column:
    """One environment: its versions, and the results of the cases."""

    title: str
    answers: Answers
    verdicts: Mapping[str, Verdict]


def cell(verdict: Verdict | None, claim: str) -> str:
    """Formats a verdict for the table."""
    if verdict is None:
        return "—"
    if not verdict.works:
        return f"{'refused' if verdict.holds else 'no'}: {verdict.reason.splitlines()[0][:200]}"
    if claim == AGREE:
        return "workers agree"
    return "equal" if not verdict.difference else f"equal to {verdict.difference:.0e}"


def table(columns: Sequence[Column]) -> list[str]:
    """A row for each case, under the name of its group, and a column for each environment."""
    groups: dict[str, dict[str, str]] = {}
    for column in columns:
        for name, answer in column.answers.items():
            groups.setdefault(answer["group"], {})[name] = answer["claim"]
    rows = []
    for group, claims in groups.items():
        rows.append(f"| **{group}** |{' |' * len(columns)}")
        for name, claim in claims.items():
            cells = [cell(column.verdicts.get(name), claim) for column in columns]
            rows.append(f"| {' | '.join([name, *cells])} |")
    return rows


def measure(python: str, names: Sequence[str]) -> Column:
    """Runs the cases in an environment, and immediately prints a summary."""
    own, tensorflow, keras = versions(python)
    found, judged = verdicts(python, names, GROUPS)
    title = f"TensorFlow {tensorflow}, Keras {keras}, Python {own}"
    bad = {name: verdict for name, verdict in judged.items() if not verdict.holds}
    print(title, f"{len(judged) - len(bad)} of {len(judged)} as expected", bad, flush=True)
    return Column(title, found, judged)


def main() -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keras_3")
    parser.add_argument("--python", action="append", help="an interpreter; repeatable")
    parser.add_argument("--quick", action="append", default=[], help="the same, for a few cases")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    columns = [measure(python, ()) for python in args.python or [sys.executable]]
    columns += [measure(python, DECIDING) for python in args.quick]
    titles = ["two and three workers, compared with one", *(column.title for column in columns)]
    text = page("Keras 3 on several workers", titles, table(columns))
    publish(text, args.output, "keras_3.md")
    return int(any(not v.holds for column in columns for v in column.verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
