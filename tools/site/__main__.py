"""The command line of the site.

python -m tools.site build    into .artefacts/site
python -m tools.site serve    shows it on 127.0.0.1
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tools.lessons.project import LocalisationError, Project
from tools.site import check, language, serve
from tools.site.tree import languages

OUTPUT = Path(".artefacts") / "site"
MARK = ".built-site"  # made first: a folder without it is not emptied
BESIDE_LANGUAGES = {MARK, "index.html", "sitemap.xml", "pagefind", "pictures"}
LEFT_BY_MYST = "jupyter_execute"  # the notebooks once more, beside the pages of a language
AT_A_TIME = 2


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    args = _arguments(argv)
    try:
        if args.command == "build":
            build(Project.load(args.root), args.output.absolute())
        else:
            show(args.output, args.port)
    except LocalisationError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def build(project: Project, site: Path) -> None:
    """Builds the site into a folder, of which nothing that is there stays.

    Raises:
      LocalisationError: if the folder is no site's, a page could not be made, or something in one
        is broken.
    """
    from tools.site import finish

    codes = languages(project)
    make_room(site, {*codes, *BESIDE_LANGUAGES, LEFT_BY_MYST})
    for some in (codes[k : k + AT_A_TIME] for k in range(0, len(codes), AT_A_TIME)):
        _in_turns(project, some, site)
    shutil.rmtree(site / LEFT_BY_MYST, ignore_errors=True)
    finish.write(project, site)
    built = check.Site(site)
    if problems := list(built.problems()):
        raise LocalisationError("\n".join(["The site is broken:", *problems]))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    print(f"{len(built.pages)} pages in {len(codes)} languages, {size / 1e6:.0f} MB: {site}")


def make_room(site: Path, parts: set[str]) -> None:
    """Makes a folder that holds nothing but its mark, where an older site may be.

    Raises:
      LocalisationError: if it cannot be made, or holds something that is none of `parts`, or is
        there without the mark.
    """
    try:
        if site.exists():
            held = sorted(path.name for path in site.iterdir())
            strange = [name for name in held if name not in parts or MARK not in held]
            if strange:
                raise LocalisationError(
                    f"{site} holds {strange[0]}, which is no part of a site built here; nothing "
                    "was removed. Name another folder with --output, or empty this one."
                )
            shutil.rmtree(site)
        site.mkdir(parents=True)
        (site / MARK).touch()
    except OSError as error:
        raise LocalisationError(
            f"There is no room for the site in {site}: {error}. Name another folder with --output."
        ) from None


def _in_turns(project: Project, codes: Iterable[str], site: Path) -> None:
    started = [(language.start(project, code, site), code) for code in codes]
    try:
        for process, code in started:
            language.wait(process, code)
    finally:
        for process, _code in started:
            process.kill()
            process.wait()


def show(site: Path, port: int) -> None:
    """Serves a built site until it is interrupted.

    Raises:
      LocalisationError: if there is none, or the port cannot be had.
    """
    if not (site / "index.html").exists():
        raise LocalisationError(f"There is no site in {site}. Build it: make site")
    try:
        server = serve.server(site, port)
    except (OSError, OverflowError) as error:
        raise LocalisationError(
            f"Port {port} cannot be had: {error}. Choose another: make serve PORT=8001"
        ) from None
    with server as one, suppress(KeyboardInterrupt):
        print(f"{serve.address(one)}/  (Ctrl-C ends it)", flush=True)
        one.serve_forever()


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("command", choices=["build", "serve"])
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"the site; else {OUTPUT}")
    parser.add_argument("--port", type=int, default=0, help="for serve; else a free one")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
