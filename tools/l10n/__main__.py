"""The command line of the builder.

python -m tools.l10n extract            writes templates (.pot) for a translation program
python -m tools.l10n update             updates the catalogs to the English texts
python -m tools.l10n reword --list      prints old and new text of each message that an update
                                        would make fuzzy or lose
python -m tools.l10n reword FILE        records messages of a listing whose meaning is unchanged,
                                        so that their translations are kept
python -m tools.l10n build              writes notebooks/<lang>, docs/<lang>, helpers' messages
python -m tools.l10n build --execute    the same, with executed notebooks
python -m tools.l10n build --refresh    the same, with only standalone cells executed: figures,
                                        and panels that have no outputs yet
python -m tools.l10n check              runs every check (exit code 1 if there are findings)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

from tools.l10n import build, catalog, checks, course_map, documents, extract, pending, update
from tools.lessons import execute
from tools.lessons.project import SOURCE, Project, ToolError, read_text

MISSING = {  # messages about missing outputs after a build
    "kept": "",
    "stale": ", with cells without outputs: build --refresh",
    "cleared": ", without outputs: its code has changed",
    "none": ", without outputs: it is new",
}
TEMPLATES = Path(".artefacts") / "templates"


def main(argv: list[str] | None = None) -> int:
    """Runs one command, and returns the exit code."""
    args = _arguments(argv)
    try:
        project = Project.load(args.root)
        command: Callable[[Project, argparse.Namespace], int] = args.command
        return command(project, args)
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1


def run_extract(project: Project, args: argparse.Namespace) -> int:
    """Writes a template for each domain."""
    for domain in extract.domains(project):
        text = catalog.dumps(extract.template(project, domain))
        path = project.root / TEMPLATES / f"{domain}.pot"
        update.write(path, text)
        print(project.short(path))
    return 0


def run_update(project: Project, args: argparse.Namespace) -> int:
    """Updates the catalogs, and creates the catalogs of a new language."""
    langs = [lang for lang in args.lang or project.languages if lang != SOURCE]
    update.update(project, langs, print)
    return 0


def run_reword(project: Project, args: argparse.Namespace) -> int:
    """Keeps the translations of messages whose wording changed, but not their meaning."""
    if args.list == bool(args.file):
        raise ToolError("Pass either --list or a file: python -m tools.l10n reword --help")
    if args.file:
        least = pending.SAME_MEANING if args.similarity is None else args.similarity
        text = sys.stdin.read() if args.file == "-" else read_text(Path(args.file))
        rejected = pending.accept(project, text, args.file, print, least)
        print("".join(f"rejected: {sentence}\n" for sentence in rejected), end="", file=sys.stderr)
        return 1 if rejected else 0
    langs = [lang for lang in _languages(project, args) if lang != SOURCE]
    elsewhere = {lang: update.all_translations(project, lang) for lang in langs}
    for domain in (d for d in extract.domains(project) if fnmatch(d, args.only)):
        found = pending.candidates(project, domain, elsewhere)
        if shown := [each for each in found if each.similarity >= (args.similarity or 0)]:
            print(pending.listing(domain, shown))
    return 0


def run_build(project: Project, args: argparse.Namespace) -> int:
    """Writes the notebooks, the documents and the compiled messages of helpers."""
    failures = 0
    for lang in _languages(project, args):
        for path, text in build.pages(project).items() if lang == SOURCE else ():
            update.write(path, text)
        compiled = build.compiled_helpers(project, lang) if lang != SOURCE else None
        if compiled is not None:  # first, because executed cells use it
            update.write(project.compiled_helpers(lang), compiled)
        for domain in (d for d in project.notebooks if fnmatch(d, args.only)):
            try:
                _build_one(project, domain, lang, args)
            except ToolError as error:
                print(error, file=sys.stderr)
                failures += 1
        if picture := course_map.render(project, lang):
            update.write(course_map.path_of(project, lang), picture)
        for domain in (d for d in project.documents if fnmatch(d, args.only)):
            if lang != SOURCE:
                _build_document(project, domain, lang)
    return 1 if failures else 0


def run_check(project: Project, args: argparse.Namespace) -> int:
    """Prints every finding. Notes do not change the exit code."""
    langs = _languages(project, args)
    found = list(checks.check(project, langs))
    for finding in found:
        print(finding)
    errors = sum(not finding.advisory for finding in found)
    print(f"{', '.join(langs)}: {errors} findings, {len(found) - errors} notes")
    return 1 if errors else 0


def _build_one(project: Project, domain: str, lang: str, args: argparse.Namespace) -> None:
    path = project.notebook(domain, lang)
    solution = project.solution(domain) if lang == SOURCE else None
    if solution and solution.exists():
        update.write(solution, build.solution(project, domain, lang))
    built = build.build(project, domain, lang)
    text = built.text
    if (args.execute or args.refresh) and execute.is_executable(domain):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (execute.execute if args.execute else execute.refresh)(text, path)
    update.write(path, text)
    done = built.messages - len(built.untranslated)
    state = f", {done} of {built.messages} messages" if lang != SOURCE else ""
    if not args.execute and not (args.refresh and built.outputs == "stale"):
        state += MISSING[built.outputs]
    print(f"{project.short(path)}{state}")
    for cell, why, message in built.untranslated:
        print(f"    English kept in cell {cell}, {why}: {message[:70]!r}")


def _build_document(project: Project, domain: str, lang: str) -> None:
    untranslated: list[tuple[str, str, str]] = []
    path = project.document(domain, lang)
    update.write(path, documents.build(project, domain, lang, untranslated))
    print(project.short(path))
    for _place, why, message in untranslated:
        print(f"    English kept, {why}: {message[:70]!r}")


def _languages(project: Project, args: argparse.Namespace) -> list[str]:
    known = [SOURCE, *project.languages]
    for lang in args.lang or []:
        if lang not in known:
            raise ToolError(
                f"There are no catalogs for {lang!r}, only for {', '.join(known)}. "
                f"Make them: python -m tools.l10n update --lang {lang}"
            )
    return args.lang or known


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.l10n",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run in (
        ("extract", run_extract),
        ("update", run_update),
        ("reword", run_reword),
        ("build", run_build),
        ("check", run_check),
    ):
        command = commands.add_parser(name, help=run.__doc__)
        command.set_defaults(command=run)
        command.add_argument("--root", type=Path, default=Path(), help="the repository's folder")
        if name != "extract":
            command.add_argument("--lang", nargs="+", metavar="LANG", help="default: all")
        if name in ("build", "reword"):
            command.add_argument("--only", default="*", metavar="NAME", help="as 01_*")
        if name == "reword":
            command.add_argument("file", nargs="?", metavar="FILE", help="an edited listing, or -")
            command.add_argument(
                "--list", action="store_true", help="print changed messages as TOML"
            )
            command.add_argument(
                "--similarity",
                type=float,
                metavar="N",
                help="from 0 to 1: list, or record, only from N; by default from 0, or "
                f"{pending.SAME_MEANING:g} to record",
            )
        if name == "build":
            command.add_argument("--execute", action="store_true", help="execute the notebooks")
            command.add_argument("--refresh", action="store_true", help="only standalone cells")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
