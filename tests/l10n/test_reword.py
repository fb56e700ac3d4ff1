"""Rewording: an English text whose wording alone changed keeps its translations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.catalog import Message

from tests.support.l10n_project import LESSON, make_project, run, text_cell, translate
from tools.l10n import catalog, rewords
from tools.lessons.project import HELPERS, Project

OLD = "Whoever comes late finds `steps` at 60, and nobody waits for it."
NEW = "A late worker finds `steps` at 60, and no worker waits for it."
NEWEST = "If a worker is late, it finds `steps` at 60; no worker waits for it."
OTHER = "A checkpoint is written every hundred steps."


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A lesson of two sentences and a module with messages, translated into Russian."""
    found = make_project(tmp_path, text_cell("a", OLD), text_cell("b", OTHER), messages=True)
    run(found, "update", "--lang", "ru")
    translate(found, "ru", {OLD: "Опоздавший видит `steps` = 60.", OTHER: "Другое."})
    translate(found, "ru", {"ready": "готово"}, HELPERS)
    return found


def change(project: Project, text: str) -> None:
    """Rewrites the first sentence of the lesson."""
    make_project(project.root, text_cell("a", text), text_cell("b", OTHER))


def listed(project: Project, capsys: pytest.CaptureFixture[str], *options: str) -> Path:
    """Writes the output of `reword --list` to a file."""
    capsys.readouterr()
    assert run(project, "reword", "--list", *options) == 0
    path = project.root / "listing.toml"
    path.write_text(capsys.readouterr().out, "utf-8")
    return path


def accept(project: Project, listing: Path) -> int:
    """Records a listing and updates the catalogs."""
    code = run(project, "reword", str(listing))
    assert run(project, "update") == 0
    return code


def entry(project: Project, text: str, domain: str = LESSON) -> Message:
    """The message of a text in the Russian catalog."""
    found = catalog.read(project.catalog(domain, "ru"), "ru").get(text)
    assert found is not None
    return found


def test_a_reword_keeps_its_translation_and_shows_the_old_text_above_the_new(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    change(project, NEW)
    listing = listed(project, capsys)
    assert f'old = "{OLD}"\nnew = "{NEW}"\n' in listing.read_text("utf-8")
    assert "paragraph, cell a; similarity 0." in listing.read_text("utf-8")
    assert accept(project, listing) == 0
    assert entry(project, NEW).string == "Опоздавший видит `steps` = 60."
    text = project.catalog(LESSON, "ru").read_text("utf-8")
    assert "fuzzy" not in text
    assert OLD not in text
    record = (project.root / "locales" / "rewords" / f"{LESSON}.toml").read_text("utf-8")
    assert f'old = "{OLD}"\nnew = "{NEW}"\n' in record
    assert listed(project, capsys).read_text("utf-8") == ""


def test_a_change_that_nobody_recorded_is_fuzzy(project: Project) -> None:
    change(project, NEW)
    run(project, "update")
    assert entry(project, NEW).fuzzy


def test_a_message_that_an_update_has_made_fuzzy_can_be_reworded(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    change(project, NEW)
    run(project, "update")
    assert accept(project, listed(project, capsys)) == 0
    assert not entry(project, NEW).fuzzy
    assert "#|" not in project.catalog(LESSON, "ru").read_text("utf-8")


def test_a_text_reworded_twice_between_updates_keeps_its_translation(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = (NEW, NEWEST)
    pairs = [rewords.Reword((OLD,), (NEW,)), rewords.Reword((NEW,), (NEWEST,))]
    assert rewords.earlier_texts(pairs, (NEWEST,)) == [(NEW,), (OLD,)]
    for text in texts:
        change(project, text)
        listing = listed(project, capsys)
        assert run(project, "reword", str(listing)) == 0
    run(project, "update")
    assert not entry(project, NEWEST).fuzzy


def test_a_reworded_text_that_was_fuzzy_stays_fuzzy(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    change(project, NEW.replace("60", "70"))
    run(project, "update")
    change(project, NEW.replace("60", "70").replace("no worker", "none"))
    pair = f'[["{LESSON}"]]\nold = "{NEW}"\nnew = "{NEW}"\n'.replace("60", "70")
    listing = project.root / "listing.toml"
    listing.write_text("none".join(pair.rsplit("no worker", 1)), "utf-8")
    assert accept(project, listing) == 0
    message = entry(project, NEW.replace("60", "70").replace("no worker", "none"))
    assert message.fuzzy
    assert message.previous_id == [OLD]


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (NEW.replace("60", "70"), "number 60 is missing; number 70 is not in the old text"),
        (NEW.replace("`steps`", "`epochs`"), "inline code steps is missing"),
        (f"{NEW} Two do.", "number 2 is not in the old text"),
        (NEW.replace("late", "[late](x.md)"), "link to x.md is not in the old text"),
    ],
)
def test_what_may_not_differ_is_rejected_until_it_is_allowed(
    project: Project, capsys: pytest.CaptureFixture[str], new: str, sentence: str
) -> None:
    change(project, new)
    listing = listed(project, capsys)
    assert accept(project, listing) == 1
    assert sentence in capsys.readouterr().err
    assert entry(project, new).fuzzy
    text = listed(project, capsys).read_text("utf-8")
    assert "# allow = [" in text
    listing.write_text(text.replace("# allow", "allow"), "utf-8")
    assert accept(project, listing) == 0
    assert not entry(project, new).fuzzy


def test_messages_of_the_code_are_reworded_with_their_placeholders(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project.root / "helpers" / "words.py"
    translate(project, "ru", {"{n} step": ["{n} шаг", "{n} шага", "{n} шагов"]}, HELPERS)
    changed = path.read_text("utf-8").replace('"ready"', '"prepared"')
    path.write_text(changed.replace("{n} step", "{n} done step"), "utf-8")
    assert accept(project, listed(project, capsys, "--only", HELPERS)) == 0
    assert entry(project, "prepared", HELPERS).string == "готово"
    steps = entry(project, "{n} done step", HELPERS)
    assert steps.id == ("{n} done step", "{n} done steps")
    assert not steps.fuzzy
    assert list(catalog.strings(steps)) == ["{n} шаг", "{n} шага", "{n} шагов"]
    found = rewords.differences(("{n} steps",), ("{number} steps",))
    assert found[:2] == [
        "placeholder {n} is missing",
        "placeholder {number} is not in the old text",
    ]


def test_a_text_can_be_reworded_and_moved_to_another_file(project: Project) -> None:
    change(project, OTHER)
    (project.root / "README.md").write_text(f"{NEW}\n", "utf-8")
    listing = project.root / "listing.toml"
    listing.write_text(f'[["docs/README"]]\nold = "{OLD}"\nnew = "{NEW}"\n', "utf-8")
    assert accept(project, listing) == 0
    assert entry(project, NEW, "docs/README").string == "Опоздавший видит `steps` = 60."


def test_a_text_that_is_not_in_the_source_is_rejected(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = project.root / "listing.toml"
    listing.write_text(f'[["{LESSON}"]]\nold = "{OLD}"\nnew = "Elsewhere."\n', "utf-8")
    assert accept(project, listing) == 1
    assert "the English source does not contain the new text" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["old = 1", "[[x]]\nold = 'a'", "not TOML", "[[x]]\nold=3\nnew=4"])
def test_a_file_that_is_no_listing_is_named(
    project: Project, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    listing = project.root / "listing.toml"
    listing.write_text(text, "utf-8")
    assert run(project, "reword", str(listing)) == 1
    assert "listing.toml is not a list of rewords" in capsys.readouterr().err


def test_a_text_that_is_hardly_alike_is_recorded_only_on_request(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    far = "`steps` = 60: one starts there."
    change(project, far)
    listing = project.root / "listing.toml"
    listing.write_text(f'[["{LESSON}"]]\nold = "{OLD}"\nnew = "{far}"\n', "utf-8")
    assert accept(project, listing) == 1
    message = capsys.readouterr().err
    assert "the similarity is 0." in message and "below 0.5" in message
    [option] = re.findall(r"--similarity (0\.\d+)", message)
    assert run(project, "reword", str(listing), "--similarity", option) == 0
    run(project, "update")
    assert not entry(project, far).fuzzy


def test_quotes_breaks_and_other_scripts_survive_the_file() -> None:
    pair = rewords.Reword(('a "b" \\ c  \nд\u2028',), ("one", "many"), ("number 3 is missing",))
    assert rewords.loads(rewords.dumps("docs/x", [pair]), "x") == {"docs/x": [pair]}
