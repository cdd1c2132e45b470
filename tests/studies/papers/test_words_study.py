"""`fairgate study words` finds a planted association by word, category and group, and says what a mitigation moved."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from model_world import TINY, save_local_dir
from toy_repository import Toy, toy_repository
from typer.testing import CliRunner

from fairgate.data import open_dataset
from fairgate.formulas.metrics import c_asc, normalized_entropy_at_k, word_strength
from fairgate.interfaces.cli.main import app
from fairgate.records import StudyRecord
from fairgate.studies.papers import contract

WORDS = """\
word,category,valence
nurse,care,positive
doctor,care,
line cook,kitchen,negative
chef,kitchen,
nurse,jobs,positive
"""
CAPTIONS = ["nurse", "doctor", "line cook", "chef"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, in one of which dark women are nearer to `nurse`, and a list of words."""
    toy: Toy = toy_repository(tmp_path_factory.mktemp("words"), sets=20)
    with (toy.root / "base.csv").open(encoding="utf-8", newline="") as handle:
        header, *rows = csv.reader(handle)
    nurse = header.index("a photo of a nurse")
    for row in rows:
        if row[1] == "dark-female":
            row[nurse] = str(float(row[nurse]) + 0.4)
    with (toy.root / "planted.csv").open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])
    (toy.root / "words.csv").write_text(WORDS, encoding="utf-8")
    (toy.root / "vocabulary.csv").write_text("word,form\nchef,\ndoctor,noun\n", encoding="utf-8")
    return toy.root


def run(root: Path, *words: str) -> tuple[int, str]:
    given = [str(root / word) if word.endswith(".csv") else word for word in words]
    arguments = ["study", "words", "--data", "toy", "--root", str(root), "--draws", "100", *given]
    result = CliRunner().invoke(app, arguments, env={"CI": "", "COLUMNS": "140"})
    return result.exit_code, result.output


def model(name: str) -> str:
    return f"{name}=scores:{name}.csv?values=logit"


@pytest.fixture(scope="module")
def study(repository: Path) -> tuple[StudyRecord, Path, str]:
    """base and planted, on four words."""
    out = repository / "out"
    words = ["--words", "words.csv", "--template", "a photo of a {word}", "--vocabulary", "vocabulary.csv"]
    models = ["--model", model("base"), "--model", model("planted")]
    code, output = run(repository, *models, *words, "--k", "40", "--show", "nurse", "--out", str(out))
    assert code == 0, output
    return StudyRecord.model_validate_json((out / "study.json").read_bytes()), out, output


def rows_of(record: StudyRecord, name: str) -> list[dict[str, Any]]:
    (table,) = (one for one in record.tables if one.name == name)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def column(repository: Path, name: str, word: str) -> np.ndarray:
    with (repository / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        logits = [float(row[f"a photo of a {word}"]) for row in csv.DictReader(handle)]
    return np.asarray(logits)


def test_c_asc_and_entropy_are_those_of_the_published_functions(
    study: tuple[StudyRecord, Path, str], repository: Path
) -> None:
    record, _, _ = study
    index = open_dataset("toy", repository / "datasets").index
    codes, groups = index.codes(("skin_tone", "gender"))
    exact = c_asc(column(repository, "planted", "nurse")[None, :], codes, groups=len(groups))[0]
    found = rows_of(record, "associations-skin-tone-gender")
    measured = {row["group"]: row["planted"] for row in found if row["word"] == "nurse"}
    assert {group: one.value for group, one in measured.items()} == pytest.approx(dict(zip(groups, exact, strict=True)))
    assert all(one.lo < one.value < one.hi for one in measured.values())
    gender, names = index.codes("gender")
    scores = np.stack([column(repository, "planted", word) for word in ("nurse", "doctor")])
    entropy = normalized_entropy_at_k(scores, gender, 40, groups=len(names)).mean()
    (care,) = (row for row in rows_of(record, "entropy-gender") if row["category"] == "care")
    assert care["planted"].value == pytest.approx(entropy)


def test_a_planted_word_is_the_top_word_of_its_category_and_groups(study: tuple[StudyRecord, Path, str]) -> None:
    record, _, output = study
    top = rows_of(record, "top-words-gender")
    (female,) = (r for r in top if (r["gender"], r["category"], r["model"]) == ("female", "care", "planted"))
    assert (female["word"], female["valence"]) == ("nurse", "positive")
    assert female["C-ASC"].lo > 0.1
    assert "tables 1 and 2" in output
    (all_words,) = (r for r in rows_of(record, "entropy-skin-tone-gender") if r["category"] == "all words")
    assert all_words["planted"].value < all_words["base"].value
    shown = rows_of(record, "top-k-groups")
    assert {row["word"] for row in shown} == {"nurse"}
    assert max(shown, key=lambda row: row["planted"])["group"] == "dark × female"
    assert sum(row["planted"] for row in shown) == pytest.approx(1)


def test_what_moved_towards_a_group_is_named_by_word_and_valence(study: tuple[StudyRecord, Path, str]) -> None:
    record, _, _ = study
    (moved,) = (row for row in rows_of(record, "moved-valence") if row["words: group"] == "positive: dark × female")
    assert moved["planted: change"].lo > 0.5
    (still,) = (row for row in rows_of(record, "moved-valence") if row["words: group"] == "negative: dark × female")
    assert still["planted: change"].value == 0
    crossed = [row for row in rows_of(record, "moved-words") if "×" in row["group"]]
    assert (crossed[0]["word"], crossed[0]["group"]) == ("nurse", "dark × female")


def test_the_strength_of_a_word_is_its_place_in_the_vocabulary(
    study: tuple[StudyRecord, Path, str], repository: Path
) -> None:
    record, _, _ = study
    near = {word: np.sort(column(repository, "base", word))[-40:].mean() for word in CAPTIONS}
    expected = word_strength([near[word] for word in CAPTIONS], [near["chef"], near["doctor"]])
    found = {row["word"]: row["base"] for row in rows_of(record, "strength")}
    assert found == pytest.approx(dict(zip(CAPTIONS, expected, strict=True)))


def test_figure_5_of_every_model_has_the_named_words_with_the_plant_in_them(
    study: tuple[StudyRecord, Path, str],
) -> None:
    """Without `--show`, *base*, which has no plant, would choose the words."""
    figures = {figure.name: figure for figure in study[0].figures}
    for name in ("base", "planted"):
        assert [series.name for series in figures[f"intersections-{name}"].series] == ["nurse"]
    (nurse,) = figures["intersections-planted"].series
    numbers = dict(zip(nurse.x, nurse.y, strict=True))
    assert max(numbers, key=numbers.__getitem__) == "dark × female"


def test_every_table_figure_and_sheet_is_a_file(study: tuple[StudyRecord, Path, str]) -> None:
    record, out, _ = study
    page = (out / "study.html").read_text(encoding="utf-8")
    for table in record.tables:
        assert (out / f"{table.name}.csv").is_file()
        assert f'id="{table.name}"' in page
    for figure in record.figures:
        assert (out / f"{figure.name}.svg").is_file()
    assert [one.name for one in record.pictures] == ["nearest-pictures-base", "nearest-pictures-planted"]
    assert (out / "nearest-pictures-planted.png").read_bytes().startswith(b"\x89PNG")
    assert [one.source for one in record.figures][:2] == ["figures 3 and 4", "figures 3 and 4"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--group", "femal"], "no group 'femal'. where: --group remedy: did you mean 'female'"),
        (["--show", "nurs"], "'nurs' is none of the study's words"),
        (["--k", "5000"], "the top 5,000 of 160 pictures"),
        (["--over", "age"], "age"),
        (["--model", "base=scores:planted.csv?values=logit"], "two models are named 'base'"),
        (["--words", "none.csv"], "the label file does not exist"),
        (["--words", "base.csv"], "no column 'word'"),
        (["--template", "a photo"], "never uses {a_word} or {word}"),
        (["--valence", "valence.csv"], "'good' is no valence"),
        (["--valence", "other.csv"], "none of the study's words"),
        (["--vocabulary", "forms.csv"], "'verb' is no form of a word"),
    ],
)
def test_what_cannot_be_studied_is_refused_with_its_place(repository: Path, words: list[str], message: str) -> None:
    (repository / "valence.csv").write_text("word,valence\nnurse,good\n", encoding="utf-8")
    (repository / "other.csv").write_text("word,valence\nqueen,positive\n", encoding="utf-8")
    (repository / "forms.csv").write_text("word,form\nrun,verb\n", encoding="utf-8")
    given = ["--model", model("base"), "--words", "words.csv", "--template", "a photo of a {word}"]
    code, output = run(repository, *given, *words)
    assert (code, message in " ".join(output.split())) == (4, True), output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--category", "religon"], "the taxonomy has no category 'religon'"),
        ([], "a photo of an attractive person"),
    ],
)
def test_a_table_of_scores_without_the_papers_prompts_is_refused(
    repository: Path, words: list[str], message: str
) -> None:
    code, output = run(repository, "--model", model("base"), *words)
    assert (code, message in " ".join(output.split())) == (4, True), output


def test_a_model_that_compares_no_texts_with_pictures_is_refused_by_what_it_lacks(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = SimpleNamespace(capabilities=frozenset({"log_probabilities"}), uri="diffusion:FOLDER")
    monkeypatch.setattr(contract, "open_scorer", lambda *_, **__: classifier)
    words = ["--words", "words.csv", "--template", "a photo of a {word}", "--k", "20"]
    code, output = run(repository, "--model", "diffusion:FOLDER", *words)
    assert code == 4
    assert "diffusion:FOLDER lacks the capability 'similarity'" in " ".join(output.split())


def test_a_clip_checkpoint_is_asked_the_papers_words(repository: Path) -> None:
    """A FaceCLIP or any other open_clip checkpoint is named and read in the same way; this one has random weights."""
    import open_clip
    import torch

    torch.manual_seed(0)
    folder = repository / "clip"
    save_local_dir(folder, open_clip.CLIP(**TINY))
    valence = repository / "labels.csv"
    valence.write_text("word,valence\nspiritual,positive\nsectarian,negative\n", encoding="utf-8")
    words = ["--model", f"clip=open_clip:local-dir:{folder}", "--over", "gender", "--valence", str(valence)]
    words += ["--category", "religion", "--category", "healthcare"]
    code, output = run(repository, *words, "--k", "20", "--out", str(repository / "clip-out"))
    assert code == 0, output
    record = json.loads((repository / "clip-out" / "study.json").read_text(encoding="utf-8"))
    assert record["settings"]["words"] == "so-b-it: 39 words in 2 categories"
    (table,) = (one for one in record["tables"] if one["name"] == "associations-gender")
    assert len(table["rows"]) == 39 * 2
    assert {row[2] for row in table["rows"]} == {"", "positive", "negative"}


def test_files_that_the_user_names_are_of_the_current_folder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.csv").write_text("word,valence\nnurse,good\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = ["--data", "toy", "--root", str(repository), "--model", model("base"), "--words", "mine.csv"]
    result = CliRunner().invoke(app, ["study", "words", *words], env={"CI": "", "COLUMNS": "140"})
    assert "'good' is no valence" in " ".join(result.output.split())


@pytest.mark.parametrize(
    "given",
    [
        ["--words", "w.csv", "--category", "food"],
        ["--template", "a {word}"],
        ["--show", "nurse", "--group", "female"],
    ],
)
def test_an_option_that_would_change_nothing_is_refused(given: list[str]) -> None:
    result = CliRunner().invoke(app, ["study", "words", "--model", "scores:one.csv", "--data", "toy", *given])
    assert result.exit_code == 4
    assert f"where: {given[-2]}" in " ".join(result.output.split())
