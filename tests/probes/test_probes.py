"""Probes turn a scorer's answers into one number per image, for the right labels and the right query."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from fairgate.ground.errors import ScoresError, SuiteError
from fairgate.models import open_scorer
from fairgate.probes import PROBES, ProbeScores, classify, read_scores, score_file, scores_digest, write_scores

SUBJECT = np.array(["chef", "doctor", "doctor"], dtype=object)
LABELS = {"chef": ["chef", "cook"], "doctor": ["doctor", "nurse", "vet"]}


class Spoken:
    """A scorer whose logit for a prompt is its length."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def log_probabilities(self, prompts: Sequence[str]) -> NDArray[np.float64]:
        self.asked.append(tuple(prompts))
        logits = np.array([[len(prompt) + row for prompt in prompts] for row in range(3)], dtype=float)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def test_each_image_is_classified_among_its_own_subjects_labels() -> None:
    scorer = Spoken()
    scores = classify(scorer, SUBJECT, SUBJECT, LABELS.__getitem__, "a {}".format)
    assert sorted(scorer.asked) == [("a chef", "a cook"), ("a doctor", "a nurse", "a vet")]
    doctor = np.exp([8.0, 7.0, 5.0])
    assert scores.value == pytest.approx([0.5, doctor[0] / doctor.sum(), doctor[0] / doctor.sum()])
    assert scores.predicted is not None
    assert scores.predicted.tolist() == ["chef", "doctor", "doctor"]
    assert scores.correct is not None
    assert scores.correct.tolist() == [False, True, True], "chef and cook tie: no answer is no right answer"


def test_the_truth_may_be_another_word_than_the_subject() -> None:
    truth = np.array(["cook", "nurse", "doctor"], dtype=object)
    scores = classify(Spoken(), SUBJECT, truth, LABELS.__getitem__, "a {}".format)
    assert scores.correct is not None
    assert scores.correct.tolist() == [False, False, True]


class Matrix:
    """A scorer with the similarities that it was given."""

    def __init__(self, table: list[list[float]]) -> None:
        self._table = np.array(table)
        self.asked: list[list[str]] = []

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        self.asked += [list(prompts) for prompts in ensembles]
        return self._table


def retrieve(scorer: Any, subject: NDArray[Any]) -> ProbeScores:
    probe = PROBES["retrieval"](kind="retrieval", prompts=["{subject}"])
    return probe.run("search", scorer, SimpleNamespace(subject=subject), open_scorer)["search"]


def test_each_image_is_compared_with_its_own_subjects_query() -> None:
    scorer = Matrix([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    scores = retrieve(scorer, SUBJECT)
    assert scorer.asked == [["chef"], ["doctor"]]
    assert scores.value.tolist() == [0.1, 0.4, 0.6]
    assert scores.predicted is None
    assert scores.correct is None


def test_the_rank_is_the_place_of_the_own_query_and_equal_queries_count_as_nearer() -> None:
    table = [[0.3, 0.2], [0.3, 0.2], [0.2, 0.2]]  # queries: chef, doctor
    scores = retrieve(Matrix(table), SUBJECT)
    assert scores.rank is not None
    assert scores.rank.tolist() == [1, 2, 2]
    assert retrieve(Matrix([[0.3], [0.2]]), SUBJECT[1:]).rank is None, "one subject: no contest"


def test_an_association_has_scores_for_every_word_and_one_prompt_each() -> None:
    scorer = Matrix([[0.1, 0.4], [0.2, 0.5], [0.3, 0.6]])
    probe = PROBES["association"](kind="association", template="a {word} person", words=["kind", "rude"])
    scores = probe.run("traits", scorer, SimpleNamespace(subject=SUBJECT), open_scorer)
    assert scorer.asked == [["a kind person"], ["a rude person"]]
    assert list(scores) == ["traits[kind]", "traits[rude]"]
    rude = scores["traits[rude]"]
    assert rude.value.tolist() == [0.4, 0.5, 0.6]
    assert rude.predicted is rude.correct is rude.rank is None


@dataclass(frozen=True)
class Columns:
    """The images of a dataset, in stored order."""

    set_id: NDArray[Any]
    member: NDArray[Any]
    subject: NDArray[Any]
    attributes: Mapping[str, NDArray[Any]]


def columns(order: list[int]) -> Columns:
    def text(*values: str) -> NDArray[Any]:
        return np.array(values, dtype=object)[order]

    return Columns(text("a", "b", "b"), text("0", "0", "1"), SUBJECT[order], {"tone": text("x", "y", "x")})


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_kept_scores_come_back_in_the_order_that_is_asked_for_with_what_each_probe_has(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_file, "_AT_ONCE", at_once)
    kept = {
        "labels": ProbeScores(np.array([0.1, 0.2, 0.3]), np.array(["u", "v", "w"], dtype=object), SUBJECT == "doctor"),
        "pair": ProbeScores(np.array([0.4, 0.5, 0.6]), np.array(["u", "v", "w"], dtype=object)),
        "search": ProbeScores(np.array([0.7, 0.8, 0.9]), rank=np.array([1, 2, 1])),
        "words[kind [of]]": ProbeScores(np.array([1.0, 1.1, 1.2])),
    }
    path = tmp_path / "scores.parquet"
    write_scores(path, columns([0, 1, 2]), kept)
    back = read_scores(path, columns([2, 0, 1]))
    assert list(back) == list(kept)
    for name, one in kept.items():
        for column in ("value", "predicted", "correct", "rank"):
            was, came = getattr(one, column), getattr(back[name], column)
            assert (was is None) == (came is None), (name, column)
            assert was is None or was[[2, 0, 1]].tolist() == came.tolist(), (name, column)
    same = read_scores(path, columns([0, 1, 2]))
    assert scores_digest(same) == scores_digest(kept)
    other = {**kept, "search": ProbeScores(kept["search"].value, rank=np.array([1, 1, 1]))}
    assert scores_digest(other) != scores_digest(kept)


def test_kept_scores_with_a_gap_in_a_column_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    write_scores(path, columns([0, 1, 2]), {"search": ProbeScores(np.array([0.7, 0.8, 0.9]), rank=np.array([1, 2, 1]))})
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[1]["rank"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    with pytest.raises(ScoresError, match="columns with gaps"):
        read_scores(path, columns([0, 1, 2]))


def test_keeping_scores_and_reading_them_does_not_import_pandas(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    code = f"""
import sys
from pathlib import Path
from types import SimpleNamespace as Namespace
import numpy as np
from fairgate.probes import ProbeScores, read_scores, write_scores
ids, members, subjects = (np.array(list(text), dtype=object) for text in ("abb", "001", "xxx"))
rows = Namespace(set_id=ids, member=members, subject=subjects, attributes={{"tone": members}})
said = ProbeScores(
    np.array([0.5, 1, 0]), np.array(["u", "v", "wé"], dtype=object), np.array([True, False, True]), np.array([1, 2, 3])
)
write_scores(Path({str(path)!r}), rows, {{"pair": said, "bare": ProbeScores(np.ones(3))}})
kept = read_scores(Path({str(path)!r}), rows)
assert kept["pair"].value.tolist() == [0.5, 1, 0]
assert kept["pair"].predicted.tolist() == ["u", "v", "wé"]
assert kept["pair"].correct.tolist() == [True, False, True]
assert kept["pair"].rank.tolist() == [1, 2, 3]
assert kept["bare"].predicted is None
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("right", [True, {"gender": {"female": True}}, {"gender": "her"}, ["yes"]])
def test_what_is_right_in_another_form_is_refused_with_the_form_that_is_meant(right: object) -> None:
    asked = {"question": "Is it?", "options": {"yes": [], "no": []}, "right": right}
    with pytest.raises(ValidationError, match=r"one for each group: .* yes and no in quotes") as caught:
        PROBES["question"].model_validate({"kind": "question", "questions": {"it": asked}})
    assert caught.value.error_count() == 1


def test_what_is_right_may_be_listed_set_by_set_and_a_set_without_is_an_error() -> None:
    asked = {"question": "Is it?", "options": {"yes": [], "no": []}, "right": {"set_id": {"a": "yes", "b": "no"}}}
    probe = PROBES["question"].model_validate({"kind": "question", "questions": {"it": asked}})
    model: Any = SimpleNamespace(uri="x", answer=lambda prompts, _: np.array(["Yes"] * len(prompts), dtype=object))

    def right_about(*sets: str) -> list[float]:
        rows: Any = SimpleNamespace(subject=np.array(["person"] * len(sets)), set_id=np.array(sets), attributes={})
        return probe.run("q", model, rows, lambda *_: model)["q[it]"].more["right"].tolist()

    assert right_about("b", "a", "a") == [0, 1, 1]
    with pytest.raises(SuiteError, match="no answer is right for set_id 'c'"):
        right_about("a", "c")


def test_an_empty_text_is_nothing_that_is_right() -> None:
    asked = {"question": "Is it?", "options": {"yes": [], "no": []}, "right": ""}
    with pytest.raises(ValidationError, match="or leave `right` out if nothing is") as caught:
        PROBES["question"].model_validate({"kind": "question", "questions": {"it": asked}})
    assert caught.value.error_count() == 1
