"""`fairgate study robustness`: whether an order of models by F_M holds is measured by the public functions."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from toy_repository import PROMPTS, Toy, members
from typer.testing import CliRunner

from fairgate.formulas.metrics import fairness
from fairgate.interfaces.cli.main import app
from fairgate.records import Estimate
from fairgate.studies.papers import robustness_tables
from fairgate.studies.papers.robustness import published_labels
from fairgate.studies.papers.robustness_tables import parameters_of

TUNED, BIASED = ("scores:tuned.csv?values=logit", "scores:biased.csv?values=logit")
COLUMNS = {"chef": PROMPTS[:2], "doctor": PROMPTS[2:]}
Rows = dict[str, list[Any]]


def study(toy: Toy, *words: str) -> tuple[int, str]:
    given = ["--root", str(toy.root), "--template", "a photo of a {label}", "--labels", str(toy.root / "labels.csv")]
    result = CliRunner().invoke(app, ["study", "robustness", "--data", "toy", "--cache", "off", *given, *words])
    return result.exit_code, result.output + str(result.exception or "")


@pytest.fixture
def asked(toy: Toy) -> Toy:
    lines = [f"{subject},{prompt.removeprefix('a photo of a ')}" for subject, two in COLUMNS.items() for prompt in two]
    (toy.root / "labels.csv").write_text("subject,label\n" + "\n".join(lines) + "\n")
    return toy


def tables(folder: Path) -> dict[str, Rows]:
    record = json.loads((folder / "study.json").read_text())
    for one in record["tables"]:
        with (folder / f"{one['name']}.csv").open() as file:
            assert len(list(csv.reader(file))) == len(one["rows"]) + 1
    for one in record["figures"]:
        assert (folder / f"{one['name']}.svg").read_bytes().startswith(b"<?xml")
    return {one["name"]: {row[0]: row[1:] for row in one["rows"]} for one in record["tables"]}


def p_true(toy: Toy, table: str) -> dict[str, np.ndarray[Any, Any]]:
    """By set, from the table of scores: (members,)."""
    with (toy.root / table).open() as file:
        read = list(csv.DictReader(file))
    found = dict[str, list[float]]()
    for subject, set_id, tone, gender in members(len(read) // 8):
        (row,) = (one for one in read if (one["set_id"], one["member"]) == (set_id, f"{tone}-{gender}"))
        true, other = (float(row[prompt]) for prompt in COLUMNS[subject])
        found.setdefault(set_id, []).append(1 / (1 + np.exp(other - true)))
    return {name: np.array(values) for name, values in found.items()}


def test_f_m_and_the_sets_whose_base_every_model_gets_right_are_as_by_hand(asked: Toy, tmp_path: Path) -> None:
    code, output = study(
        asked,
        *("--model", TUNED, "--model", BIASED, "--base", "dark-female", "--reference", "light-male"),
        *("--out", str(tmp_path / "out")),
    )
    assert code == 0, output
    found = tables(tmp_path / "out")
    tuned, biased = p_true(asked, "tuned.csv"), p_true(asked, "biased.csv")
    right = [name for name in tuned if tuned[name][-1] > 0.5 and biased[name][-1] > 0.5]
    assert 0 < len(right) < len(tuned)
    for name, values in (("tuned", tuned), ("biased", biased)):
        assert found["fairness"][name][1]["value"] == pytest.approx(fairness(list(values.values())), abs=1e-6)
    checks = found["checks"]["base picture right in every model"]
    assert checks[0] == len(right)
    assert checks[2]["value"] == pytest.approx(fairness([biased[name] for name in right]), abs=1e-6)
    # Of two labels, the strongest wrong one is the only one.
    for all_labels, strongest in zip(
        found["checks"]["all sets, all labels"][1:3], found["checks"]["strongest wrong label alone"][1:3], strict=True
    ):
        assert strongest["value"] == pytest.approx(all_labels["value"], abs=1e-9)
    assert found["strongest-labels"]["doctor"][0] == "nurse"
    assert found["strongest-labels"]["doctor"][2] > found["strongest-labels"]["doctor"][1]
    wrong = sum(values[-1] <= 0.5 < values[0] for values in biased.values())
    assert found["errors"]["biased"] == ["dark-female", len(biased), wrong, f"nurse ({wrong})"]
    assert (tmp_path / "out" / "errors-sheet.png").read_bytes().startswith(b"\x89PNG")
    assert found["by-subject"]["biased"][1]["value"] < found["by-subject"]["biased"][0]["value"] - 0.1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--reference", "dark-femal"], "did you mean 'dark-female'"),
        (["--base", "dark-femal"], "did you mean 'dark-female'"),
        (["--template", "a photo"], "--template"),
    ],
)
def test_what_cannot_be_asked_is_refused(words: list[str], problem: str, asked: Toy) -> None:
    code, output = study(asked, "--model", TUNED, *words)
    assert code != 0
    assert problem in output


def test_a_subject_without_its_own_label_is_refused(asked: Toy) -> None:
    (asked.root / "labels.csv").write_text("subject,label\nchef,line cook\nchef,server\n")
    code, output = study(asked, "--model", TUNED)
    assert code != 0
    assert "'chef' is not among them" in output


def test_the_papers_labels_are_seven_next_to_each_true_one() -> None:
    labels = published_labels()
    assert list(labels) == ["chef", "doctor", "firefighter", "mechanic", "pilot"]
    assert {len(set(own)) for own in labels.values()} == {8}
    assert all(own[0] == subject for subject, own in labels.items())


def test_parameters_are_counted_in_the_checkpoint(tmp_path: Path) -> None:
    held = {"a": np.zeros((3, 5), np.float32), "b": np.zeros(7, np.float16), "ids": np.zeros(9, np.int64)}
    save_file(held, tmp_path / "m.safetensors")
    assert parameters_of("open_clip:ViT-B-32@m.safetensors", tmp_path).value == pytest.approx(22e-6)
    assert parameters_of("open_clip:ViT-B-32@laion2b_e16", tmp_path).value is None


def test_the_figure_of_size_has_a_point_for_every_model_at_its_own_size(
    asked: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {TUNED: 0.7, BIASED: 2.1}
    monkeypatch.setattr(robustness_tables, "parameters_of", lambda uri, _: Estimate(value=sizes[uri]))
    code, output = study(asked, "--model", TUNED, "--model", BIASED, "--out", str(tmp_path / "out"))
    assert code == 0, output
    table = tables(tmp_path / "out")["fairness"]
    figures = json.loads((tmp_path / "out" / "study.json").read_text())["figures"]
    (size,) = (figure for figure in figures if figure["name"] == "size")
    assert [(series["name"], series["x"]) for series in size["series"]] == [("tuned", [0.7]), ("biased", [2.1])]
    for series in size["series"]:
        assert [table[series["name"]][1][part] for part in ("value", "lo", "hi")] == [
            *(series["y"] + series["lo"] + series["hi"]),
        ]


def test_labels_that_a_model_cannot_tell_apart_are_noted(asked: Toy, tmp_path: Path) -> None:
    with (asked.root / "tuned.csv").open() as file:
        read = list(csv.DictReader(file))
    one, other = COLUMNS["chef"]
    with (asked.root / "alike.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(read[0]))
        writer.writeheader()
        writer.writerows({**row, other: row[one]} for row in read)
    code, output = study(asked, "--model", "a=scores:alike.csv?values=logit", "--out", str(tmp_path / "out"))
    assert code == 0, output
    names = "' and '".join(prompt.removeprefix("a photo of a ") for prompt in (one, other))
    said = f"a reads 2 of 4 labels as the same text as another of their subject's: '{names}'"
    assert said in json.loads((tmp_path / "out" / "study.json").read_text())["notes"]
