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

from tools.lessons.project import Project, ToolError
from tools.site import check, language, serve
from tools.site.tree import languages

OUTPUT = Path(".artefacts") / "site"
MARKER_FILE = ".built-site"  # created first, because a folder without it is not emptied
SHARED_PATHS = {
    MARKER_FILE,
    "index.html",
    "sitemap.xml",
    "releases.xml",
    "pagefind",
    "pictures",
    "python",
}
MYST_LEFTOVERS = "jupyter_execute"  # copies of the notebooks, next to the pages of a language
MAX_JOBS = 2


def main(argv: list[str] | None = None) -> int:
    """Runs one command, and returns the exit code."""
    args = _arguments(argv)
    try:
        if args.command == "build":
            build(Project.load(args.root), args.output.absolute())
        else:
            serve_site(args.output, args.port)
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def build(project: Project, site: Path) -> None:
    """Builds the site into a folder, whose previous contents are deleted.

    Raises:
      ToolError: the folder is not a site's, a page cannot be built, or a page contains errors.
    """
    from tools.site import postprocess

    codes = languages(project)
    prepare_output(site, {*codes, *SHARED_PATHS, MYST_LEFTOVERS})
    for some in (codes[k : k + MAX_JOBS] for k in range(0, len(codes), MAX_JOBS)):
        _build_languages(project, some, site)
    shutil.rmtree(site / MYST_LEFTOVERS, ignore_errors=True)
    postprocess.write(project, site)
    built = check.Site(site)
    if problems := list(built.problems()):
        raise ToolError("\n".join(["The site is broken:", *problems]))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    print(f"{len(built.pages)} pages in {len(codes)} languages, {size / 1e6:.0f} MB: {site}")


def prepare_output(site: Path, parts: set[str]) -> None:
    """Creates a folder with only the marker file, in place of an older site.

    Raises:
      ToolError: it cannot be created, it contains other things than `parts`, or it exists without
        the marker file.
    """
    try:
        if site.exists():
            held = sorted(path.name for path in site.iterdir())
            strange = [name for name in held if name not in parts or MARKER_FILE not in held]
            if strange:
                raise ToolError(
                    f"{site} contains {strange[0]}, which is not part of a built site. Nothing "
                    "was removed. Name another folder with --output, or empty this one."
                )
            shutil.rmtree(site)
        site.mkdir(parents=True)
        (site / MARKER_FILE).touch()
    except OSError as error:
        raise ToolError(
            f"The site cannot be stored in {site}: {error}. Name another folder with --output."
        ) from None


def _build_languages(project: Project, codes: Iterable[str], site: Path) -> None:
    started = [(language.start(project, code, site), code) for code in codes]
    try:
        for process, code in started:
            language.wait(process, code)
    finally:
        for process, _code in started:
            process.kill()
            process.wait()


def serve_site(site: Path, port: int) -> None:
    """Serves a built site until it is interrupted.

    Raises:
      ToolError: there is no site, or the port is not available.
    """
    if not (site / "index.html").exists():
        raise ToolError(f"There is no site in {site}. Build it: make site")
    try:
        server = serve.server(site, port)
    except (OSError, OverflowError) as error:
        raise ToolError(
            f"Port {port} is not available: {error}. Choose another one: make serve PORT=8001"
        ) from None
    with server as one, suppress(KeyboardInterrupt):
        print(f"{serve.address(one)}/  (Ctrl-C ends it)", flush=True)
        one.serve_forever()


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("command", choices=["build", "serve"])
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help=f"the folder of the site (default: {OUTPUT})"
    )
    parser.add_argument("--port", type=int, default=0, help="for serve (default: a free port)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
