"""Every check of a translation: a text with a finding, and a text without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import ROOT
from tools.l10n import glossary
from tools.l10n.lesson_checks import compare
from tools.l10n.numbers import check_numbers
from tools.l10n.punctuation import check_pairs, check_punctuation
from tools.l10n.text_checks import (
    Check,
    check_addresses,
    check_placeholders,
    check_toolkit,
    strip_markup,
)
from tools.lessons.project import ToolError

GLOSSARY = ROOT / "locales" / "glossary.csv"
Case = tuple[Check, str, str, str]


def found(check: Check, lang: str, english: str, text: str) -> str:
    return "\n".join(f"{p.what}. {p.todo}" for p in check(lang, english, text))


BAD: list[tuple[Check, str, str, str, str]] = [
    (check_placeholders, "ru", "{n} of %(total)s", "{m} из %(total)s", "{n} is missing"),
    (check_placeholders, "ru", "ready", "готово {n}", "{n} is not in the English"),
    (check_numbers, "ru", "0.98 after 3 epochs", "0,97 за 3 эпохи", "0.98 is missing"),
    (check_numbers, "es", "60,000 images", "6.000 imágenes", "60,000 is missing"),
    (check_numbers, "zh", "60,000 images", "60 万张图像", "60,000 is missing"),
    (check_numbers, "ko", "the images", "이미지 50장", "50 is not in the English"),
    (check_addresses, "ru", "see https://a.org/x", "см. https://a.org/y", "https://a.org/x is"),
    (check_punctuation, "zh", "It runs, then stops.", "它运行,然后停止。", "half-width"),
    (check_punctuation, "zh", "A worker (chief).", "工作进程 (chief)。", "half-width"),
    (check_punctuation, "zh", "It uses `RING`.", "它使用 `RING`.", "half-width"),
    (check_punctuation, "zh", "Use TensorFlow here.", "这里使用TensorFlow。", "without a space"),
    (check_punctuation, "zh", "Use `fit` here.", "这里使用`fit`。", "without a space"),
    (check_punctuation, "zh", "Stop. Go.", "停止。 继续。", "next to full-width"),
    (check_punctuation, "zh", "Stop it.", "停止 它。", "between Chinese"),
    (check_punctuation, "zh", 'the "step"', '"步骤"一', "straight quote"),
    (check_punctuation, "ko", "Stop, go.", "멈추고，갑니다.", "full-width"),
    (check_punctuation, "ko", "Stop.", "멈춥니다 .", "space before"),
    (check_punctuation, "ru", 'the "loss"', 'это "потери"', "not Russian"),
    (check_punctuation, "ru", "it - that", "это - то", "hyphen"),
    (check_punctuation, "ru", "the step", "шаг обyчения", "Latin letter"),
    (check_punctuation, "ru", "with a step", "шаг c шагом", "Latin letter"),
    (check_punctuation, "es", "Done.", "Hecho .", "space before"),
    (check_pairs, "es", "Why?", "Por qué?", "¿ and ? are not paired"),
    (check_pairs, "es", "Go!", "¡Vamos", "¡ and !"),
    (check_pairs, "zh", "a (b)", "甲（乙", "（ and ）"),
    (check_pairs, "ru", 'the "loss"', "это «потери", "« and »"),
    (check_toolkit, "ru", "the model is", "модель модель", "doublewords"),
    (check_toolkit, "ru", "one\ntwo", "один два", "newlines"),
    (check_toolkit, "ru", "<b>one</b> two", "<b>один два", "xmltags"),
    (check_toolkit, "ru", "one two", "один два ", "endwhitespace"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "lang", "english", "text", "expected"), BAD)
def test_a_check_finds_what_it_is_for(
    check: Check, lang: str, english: str, text: str, expected: str
) -> None:
    assert expected in found(check, lang, english, text)


GOOD = [
    ("ru", "{n} of %(total)s in `{x}`", "{n} из %(total)s в `{y}`"),
    ("ru", "0.98 after 3 epochs on 60,000 images", "0,98 за 3 эпохи на 60 000 изображениях"),
    ("es", "0.98 after 3 epochs on 60,000 images", "0,98 tras 3 épocas con 60.000 imágenes"),
    ("es", "60,000 images", "60\u00a0000 imágenes"),
    ("zh", "0.98 on 60,000 images, TensorFlow 2.15.1", "在 6 万张图像上为 0.98，TensorFlow 2.15.1"),
    ("ko", "60,000 images", "이미지 6만 장"),
    ("zh", "Two workers (both local) wait.", "2 个工作进程（都在本机）等待。"),
    ("zh", "It uses `RING`, `NCCL` or [MPI](x.md).", "它使用 `RING`、`NCCL` 或 [MPI](x.md)。"),
    ("zh", "**Careful.** Two steps: one (first).", "**注意**：有两步：一（第一）。"),
    ("zh", "See https://ray.io, then go on.", "请参阅 https://ray.io，然后继续。"),
    ("zh", "Create it inside strategy.scope().", "请在 strategy.scope() 内创建。"),
    ("zh", "LocalCluster(workers=N) uses it.", "LocalCluster(workers=N) 使用它。"),
    ("zh", "Call tf.f(a, g(b)) or h(…).", "请调用 tf.f(a, g(b)) 或 h(…)。"),
    ("ko", "A twentieth, three quarters, two zeros", "20분의 1, 4분의 3, 0 두 개"),
    ("zh", "`TF_CONFIG`, `task`", "`TF_CONFIG`, `task`"),
    ("ko", "The **replica** (a copy) runs.", "**복제본**(복사본)이 실행됩니다."),
    ("ru", 'The "loss" - a number - falls.', "«Потери» — число — уменьшаются."),
    ("ru", "a GPU process of `batch`", "GPU-процесс для `batch`"),
    ("es", "Why? See [this](a(b).md)!", "¿Por qué? ¡Mira [esto](a(b).md)!"),
    ("ru", "a) first, b) second", "а) первое, б) второе"),
    ("es", "It costs $x_1$ (10 ms).", "Cuesta $x_1$ (10 ms)."),
    ("zh", '<img src="a.svg" alt="Two workers">', '<img src="a.svg" alt="两个工作进程">'),
]


@pytest.mark.parametrize(("lang", "english", "text"), GOOD)
def test_no_check_complains_of_good_sentences(lang: str, english: str, text: str) -> None:
    checks = [check_placeholders, check_numbers, check_addresses, check_punctuation]
    for check in [*checks, check_pairs, check_toolkit]:
        assert found(check, lang, english, text) == ""


PARITY = [
    ("the `fit` call", "вызов `evaluate`", "inline code fit is missing"),
    ("**Important.** The next", "**重要。**下一句", "bold is missing or does not render"),
    ("The **replica** is", "**복제본(replica)**을", "bold is missing or does not render"),
    ("see [it](02_x.ipynb)", "см. [это](03_x.ipynb)", "link to 02_x.ipynb is missing"),
    ("see [it](#The-end)", "см. [это](x.md)", "link to # is missing"),
    ("with $x_1$", "с $x_2$", "math x_1 is missing"),
    ("![One](a.svg)", "![Один](b.svg)", "picture a.svg is missing"),
    ("a <b>c</b>", "а <i>в</i>", "tag <b> is missing"),
    ("text", "- текст", "bullet_list ul where English has paragraph"),
    ("# text", "## текст", "other blocks"),
    ("| a | b |\n|---|---|\n| c | d |", "| а \\| б |\n|---|---|\n| в | г |", "other blocks"),
    ('<div class="x">\na\n</div>', '<div class="y">\nа\n</div>', "other blocks"),
    ("<div>\n<code>a</code> b\n</div>", "<div>\n<code>б</code> в\n</div>", "other blocks"),
]


@pytest.mark.parametrize(("english", "text", "expected"), PARITY)
def test_another_structure_than_in_english_is_found(english: str, text: str, expected: str) -> None:
    assert expected in "\n".join(problem.what for problem, _ in compare(english, text))


@pytest.mark.parametrize(
    ("english", "text"),
    [
        ("**Important.** The next `a` and `b`", "**重要**：`b` 和 `a`"),
        ("see [it](#The-end 'Title')", "см. [это](#Конец 'Название')"),
        ("[a](https://x/notebooks/en/a.ipynb#B)", "[а](https://x/notebooks/ru/a.ipynb#Б)"),
        ("![One](a.svg)", "![Один](a.svg)"),
        ("two\nlines", "одна"),
        ('<p title="a">b</p>', '<p title="а">б</p>'),
        ("<b>x</b> and <b>y</b>\n\n- z", "<b>икс</b> и <b>игрек</b>\n\n- зет"),
    ],
)
def test_the_same_structure_in_other_words_is_fine(english: str, text: str) -> None:
    assert list(compare(english, text)) == []


TERMS = [
    ("ru", "Two workers train.", "Два процесса обучаются.", "“worker” is missing"),
    ("ru", "Two workers train.", "Два воркера, то есть работника.", "“работник” stands for"),
    ("zh", "Two workers train.", "两个工作器训练。", "“工作器” stands for"),
    ("ko", "Two workers train.", "작업자 두 개가 훈련합니다.", "“작업자” stands for"),
    ("es", "Two workers train.", "Dos workers entrenan.", "“workers” stands for"),
    ("ru", "the global batch size", "общий размер", "“global batch size” is missing"),
    ("zh", "Batches are read.", "读取数据。", "“batch” is missing"),
]


@pytest.mark.parametrize(("lang", "english", "text", "expected"), TERMS)
def test_a_term_is_translated_by_the_word_of_the_glossary(
    lang: str, english: str, text: str, expected: str
) -> None:
    assert expected in found(
        glossary.check_terms(glossary.load(GLOSSARY, lang)), lang, english, text
    )


@pytest.mark.parametrize(
    ("lang", "english", "text"),
    [
        ("ru", "Workers, replicas and gradients", "Воркеров, репликами, градиенты"),
        ("ru", "datasets in batches; checkpoints", "наборами данных по батчам; контрольных точек"),
        ("ru", "the parameter servers, `worker`", "с серверами параметров, `worker`"),
        ("zh", "The global batch size of a worker", "一个工作进程的全局批次大小"),
        ("ko", "Workers hold gradients.", "워커들은 그래디언트를 가집니다."),
        ("es", "Workers, replicas, batches", "Los trabajadores, las réplicas, los lotes"),
        ("es", "the `worker` of MultiWorkerMirroredStrategy", "el `worker` de MultiWorkerMirrored"),
    ],
)
def test_inflected_terms_and_code_are_no_findings(lang: str, english: str, text: str) -> None:
    assert found(glossary.check_terms(glossary.load(GLOSSARY, lang)), lang, english, text) == ""


def test_an_everyday_sense_of_a_term_is_only_a_note() -> None:
    check = glossary.check_terms(glossary.load(GLOSSARY, "ru"))
    (problem,) = check("ru", "The next step is to read.", "Теперь читаем.")
    assert problem.advisory


def test_every_glossary_row_accepts_its_own_term() -> None:
    rows = len(GLOSSARY.read_text("utf-8").splitlines()) - 1
    for lang in ("ru", "zh", "ko", "es"):
        terms = glossary.load(GLOSSARY, lang)
        assert len(terms) == rows >= 40
        for term in terms:
            assert term.match.search(term.word), (lang, term.name)
            assert not (term.avoid and term.avoid.search(term.word)), (lang, term.name)


def test_a_language_without_a_glossary_column_has_no_terms() -> None:
    assert glossary.load(GLOSSARY, "fr") == []


def test_a_bad_pattern_in_the_glossary_is_named(tmp_path: Path) -> None:
    path = tmp_path / "glossary.csv"
    path.write_text("en,ru,ru_match\nworker,воркер,во(рк\n", "utf-8")
    with pytest.raises(ToolError, match="'worker' has an invalid pattern for ru"):
        glossary.load(path, "ru")


def test_prose_is_left_of_a_message_when_code_math_and_marks_are_gone() -> None:
    text = "**a** [b](c_d) __e__ `f_g` h_i ~~j~~ $k$ <b>l</b> {m} https://n.o"
    assert strip_markup(text) == "a b e x h_i j x l x x"
    assert strip_markup("a f(b, c) d e.f(g=(1, 2)).h i (j) k()") == "a x d x.h i (j) x"
    assert strip_markup("복제본(replica)을 RING(복제본)") == "복제본(replica)을 RING(복제본)"
