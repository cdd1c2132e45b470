"""Neutral captions in the gate: a word that was moved towards men fails by its occupation, a fine-tune passes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from fairgate import gate
from fairgate.ground.errors import ModelError
from fairgate.models import require_capability
from fairgate.probes import PROBES
from fairgate.records import RunRecord
from fairgate.suites import resolve

ROOT = Path(__file__).parents[2]
CHECKPOINTS = ROOT / "build" / "portraits" / "checkpoints"
HERE = pytest.mark.skipif(
    not CHECKPOINTS.is_dir() or not (ROOT / "datasets/gensynth").is_dir(),
    reason="no embedded release here: run `dvc pull`",
)


def judged(model: Path, cache: Path) -> RunRecord:
    prepared = gate.prepare("gensynth", ROOT)
    typed = {"model": f"open_clip:local-dir:{model}", "mlflow": "off", "cache": str(cache)}
    return gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="x").record


def planted(folder: Path) -> Path:
    """*tuned*, in which the word 'doctor' is written with 'male' and without 'female'."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(CHECKPOINTS / "tuned", folder)
    known = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    weights = folder / "open_clip_model.safetensors"
    state = load_file(weights)
    words = state["token_embedding.weight"].float().clone()
    words[known["doctor"]] += 3 * (words[known["male"]] - words[known["female"]])
    save_file({**state, "token_embedding.weight": words.to(state["token_embedding.weight"].dtype)}, weights)
    return folder


@HERE
@pytest.mark.xdist_group("embedded")
def test_a_word_that_was_moved_towards_men_fails_by_its_occupation_and_its_group(
    embedded_cache: Path, tmp_path: Path
) -> None:
    record = judged(planted(tmp_path / "planted"), embedded_cache)
    failed = {check.item: check for check in record.checks if check.verdict == "fail"}
    assert set(failed) == {"bias[doctor]", "skew[doctor]"}
    assert all(check.worst_group == "male" for check in failed.values())
    for check in failed.values():
        assert None not in {check.value, check.null_p95}
        assert check.value > check.null_p95, "more than chance shows"  # type: ignore[operator]
    useful = next(check for check in record.checks if check.id == "still-useful")
    assert useful.verdict == "pass"


@HERE
@pytest.mark.xdist_group("embedded")
def test_a_harmless_fine_tune_passes(embedded_cache: Path) -> None:
    record = judged(CHECKPOINTS / "tuned", embedded_cache)
    assert {check.verdict for check in record.checks} == {"pass"}


def probe(captions: Any) -> Any:
    return TypeAdapter(PROBES["caption_retrieval"]).validate_python({"kind": "caption_retrieval", "captions": captions})


@pytest.mark.parametrize(
    ("captions", "message"),
    [
        (["A woman rides"], "'A woman rides' names a gender"),
        ({"riding": ["A rider and his dog"]}, "names a gender"),
        (["A waitress at work"], "names a gender"),
        (["A Non-binary rider"], "names a gender"),
        (["A gender fluid rider"], "names a gender"),
        (["A cook", "A cook"], "given twice"),
        ({"one": ["A cook"], "other": ["A cook"]}, "given twice"),
        ({"one": []}, "no caption"),
        ([], "at least 1"),
    ],
)
def test_captions_that_name_a_gender_or_come_twice_are_refused(captions: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        probe(captions)


def test_captions_are_asked_as_they_stand_and_a_model_without_similarity_is_refused_by_name() -> None:
    found = probe({"cooking": ["A {cook}, 100%"], "riding": ["Someone rides"]})
    assert [query.prompts for query in found.queries(())] == [("A {cook}, 100%",), ("Someone rides",)]
    assert found.word_categories == {"cooking": ("A {cook}, 100%",), "riding": ("Someone rides",)}
    labels = SimpleNamespace(uri="labels:x", capabilities=frozenset({"log_probabilities"}))
    with pytest.raises(ModelError, match="lacks the capability 'similarity'"):
        require_capability(labels, found.needs, "probe")
