"""Labels, subjects and words that a model reads as the same text are an error that names them."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from toy_repository import toy_repository
from typer.testing import CliRunner

from fairgate.ground.errors import ModelError
from fairgate.interfaces.cli.main import app
from fairgate.reports import read_results
from fairgate.suites.probing import require_distinct
from fairgate.suites.schema import Suite

PROBES: dict[str, Any] = {
    "labels": {
        "kind": "zero_shot_classification",
        "template": "a photo of a {label}",
        "labels": {"chef": ["chef", "line cook"], "doctor": ["doctor", "nurse"]},
    },
    "search": {"kind": "retrieval", "prompts": ["{subject}", "a picture of {a_subject}"]},
    "traits": {"kind": "association", "template": "a photo of {a_word} person", "words": ["kind", "rude", "mean"]},
}


def suite(*probes: str, **changes: Any) -> Suite:
    text = f"""
schema: 1
suite: jobs
dataset: toy
probes: {yaml.safe_dump({name: {**PROBES[name], **changes} for name in probes}, default_flow_style=True)}
checks: [{{id: one, probe: {probes[0]}, metric: fairness, at_least: 0.5}}]
"""
    return Suite.model_validate(yaml.safe_load(text))


class Forgetful:
    """Reads texts after replacing some words by others."""

    def __init__(self, **reads: str) -> None:
        self.reads = reads

    def read(self, prompt: str) -> str:
        return " ".join(filter(None, (self.reads.get(word, word) for word in prompt.split())))

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        texts = [tuple(self.read(prompt) for prompt in prompts) for prompts in ensembles]
        return [
            (one, other)
            for other in range(len(texts))
            for one in range(other)
            if texts[one] == texts[other] and list(ensembles[one]) != list(ensembles[other])
        ]


@pytest.mark.parametrize(
    ("probe", "reads", "named"),
    [
        ("labels", {"nurse": "doctor"}, "the labels 'doctor' and 'nurse'"),
        ("search", {"chef": "doctor"}, "the subjects 'chef' and 'doctor'"),
        ("traits", {"rude": "x", "mean": "x"}, "the words 'rude' and 'mean'"),
    ],
)
def test_what_is_read_as_the_same_text_is_named(probe: str, reads: dict[str, str], named: str) -> None:
    with pytest.raises(ModelError, match=f"the model reads {named} as the same text") as caught:
        require_distinct(Forgetful(**reads), suite(probe), ["chef", "doctor"])
    assert caught.value.where == f"probe '{probe}'"
    assert "tokenizer" in str(caught.value.remedy)


def test_of_many_pairs_the_first_are_named_and_the_rest_counted_as_pairs() -> None:
    words = ["kind", "rude", "mean", "calm", "loud"]
    with pytest.raises(ModelError, match=r"'kind' and 'rude', .* and 5 more pairs as the same text"):
        require_distinct(Forgetful(**dict.fromkeys(words, "x")), suite("traits", words=words), ["chef", "doctor"])


def test_labels_of_different_questions_may_be_the_same_text() -> None:
    require_distinct(Forgetful(nurse="cook", line=""), suite("labels"), ["chef", "doctor"])


def test_queries_that_are_written_alike_are_no_fault_of_the_model() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_distinct(Forgetful(), suite("search", words={"nurse": "doctor"}), ["doctor", "nurse"])


def test_equal_prompts_inside_one_query_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="'chef' and 'a picture of a chef'"):
        require_distinct(Forgetful(a="", picture="", of=""), suite("search"), ["chef", "doctor"])


def test_a_table_whose_columns_of_two_labels_are_equal_gives_no_verdict(tmp_path: Path) -> None:
    toy = toy_repository(tmp_path, sets=20)
    with (toy.root / "tuned.csv").open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    with (toy.root / "tuned.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, rows[0])
        writer.writeheader()
        writer.writerows({**row, "a photo of a nurse": row["a photo of a doctor"]} for row in rows)
    options = ["--root", str(tmp_path), "--mlflow", "off", "--cache", "off", "--report", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["check", "jobs", *options])
    record = read_results(tmp_path / "out" / "results.json")
    assert (record.exit_code, record.verdict) == (3, "error"), result.output
    assert "the labels 'doctor' and 'nurse' as the same text" in record.checks[0].reason


class Answers:
    """A model that says nothing of texts: two labels are the same to it where all of its answers are."""

    uri = "team:model"

    def __init__(self, *capabilities: str) -> None:
        self.capabilities = frozenset(capabilities)

    def log_probabilities(self, prompts: Sequence[str]) -> Any:
        return np.array([[1.0 if "nurse" in one or "doctor" in one else float(len(one)) for one in prompts]] * 2)

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Any:
        return np.array([[float("chef" in prompts[0] or "doctor" in prompts[0]) for prompts in ensembles]] * 2)


@pytest.mark.parametrize(
    ("probe", "capability", "named"),
    [
        ("labels", "log_probabilities", "the labels 'doctor' and 'nurse'"),
        ("search", "similarity", "the subjects 'chef' and 'doctor'"),
    ],
)
def test_of_a_model_that_names_no_equal_texts_the_answers_are_compared(probe: str, capability: str, named: str) -> None:
    with pytest.raises(ModelError, match=named):
        require_distinct(Answers(capability), suite(probe), ["chef", "doctor"])
    require_distinct(Answers(), suite(probe), ["chef", "doctor"])
