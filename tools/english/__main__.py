"""Checks the English of the repository, and counts its habits.

python -m tools.english check       prints findings above the baseline (exit code 1 if any)
python -m tools.english list FILE   prints every finding in a file or folder
python -m tools.english baseline    lowers the baseline to the present findings
python -m tools.english habits      prints ten habits per 1,000 words, compared with TensorFlow
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tools.english import habits
from tools.english.rules import RULES, findings
from tools.english.sources import Passage, passages
from tools.l10n.update import write
from tools.lessons.project import Project, ToolError

BASELINE = Path(__file__).with_name("baseline.csv")
HEAD = ("file", "rule", "at most")
Found = dict[tuple[str, str], list[str]]  # the findings, a line each, by file and rule
Counts = dict[tuple[str, str], int]


def main(argv: list[str] | None = None) -> int:
    """Runs one command, and returns the exit code."""
    args = _arguments(argv)
    try:
        texts = passages(Project.load(args.root))
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    if args.command == "habits":
        print(habits.table(texts))
        return 0
    found = find(texts)
    if args.command == "list":
        lines = [
            each for (file, _), all_ in found.items() if _is_in(file, args.path) for each in all_
        ]
        print("\n".join([*lines, f"{len(lines)} findings"]))
        return 0
    counts = {key: len(lines) for key, lines in found.items()}
    if args.command == "baseline" and args.reset:
        write(args.baseline, dumps(counts))
        return 0
    allowed = loads(args.baseline.read_text("utf-8")) if args.baseline.exists() else {}
    report = excess(found, allowed)
    print("\n".join([*report, summary(counts, allowed)]))
    if args.command == "baseline":
        write(args.baseline, dumps({k: min(n, allowed.get(k, 0)) for k, n in counts.items()}))
    return 1 if report else 0


def find(texts: Iterable[Passage]) -> Found:
    """The findings of all rules."""
    found: Found = {}
    for passage in texts:
        for rule in RULES:
            for what in findings(rule, passage):
                line = f"{passage.file}: {passage.place}: {rule.name}: {what}. {rule.todo}"
                found.setdefault((passage.file, rule.name), []).append(line)
    return found


def excess(found: Found, allowed: Counts) -> list[str]:
    """The findings of each file and rule for which there are more than the baseline allows."""
    report = []
    for key, lines in found.items():
        if len(lines) > allowed.get(key, 0):
            report += lines
            report.append(f"    {len(lines)} in all, {allowed.get(key, 0)} allowed: remove some")
    return report


def summary(counts: Counts, allowed: Counts) -> str:
    """One line about the state of all files."""
    total: Counter[str] = Counter()
    for (_file, rule), number in counts.items():
        total[rule] += number
    parts = [f"{total[rule.name]} {rule.name}" for rule in RULES]
    fallen = sum(counts.get(key, 0) < number for key, number in allowed.items())
    hint = f"; {fallen} ceilings can fall: python -m tools.english baseline" if fallen else ""
    return f"English: {', '.join(parts)}{hint}"


def dumps(counts: Counts) -> str:
    """The baseline as CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows([*key, number] for key, number in sorted(counts.items()) if number)
    return file.getvalue()


def loads(text: str) -> Counts:
    """The counts in a baseline file."""
    rows = csv.DictReader(io.StringIO(text))
    return {(row["file"], row["rule"]): int(row["at most"]) for row in rows}


def _is_in(file: str, path: str) -> bool:
    return file == path or file.startswith(path.rstrip("/") + "/")


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.english",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--root", type=Path, default=Path(), help="the repository's folder")
    parser.add_argument("--baseline", type=Path, default=BASELINE, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    commands.add_parser("check", help="report findings above the baseline")
    listing = commands.add_parser("list", help="print every finding in a file or folder")
    listing.add_argument("path", metavar="FILE")
    baseline = commands.add_parser("baseline", help="lower the baseline")
    baseline.add_argument("--reset", action="store_true", help="write the counts as they are")
    commands.add_parser("habits", help="print the table of habits")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
