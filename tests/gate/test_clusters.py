"""Images that depend on each other: a cluster is what is resampled, compared and counted by `min_sets`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairgate
from fairgate import gate
from fairgate.ground.errors import DatasetError
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import resolve

pd = pytest.importorskip("pandas")

SUITE = """\
schema: 1
suite: people
dataset: people
probes:
  gender:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: [man, woman]
    truth: gender
    words: {Male: man, Female: woman}
groups: {min_sets: 30}
decision: {draws: 1000}
checks:
  - {id: useful, probe: gender, metric: p_true, no_worse_than: baseline, margin: 0.03}
  - {id: own, probe: gender, metric: p_true, over: gender, no_worse_than: baseline, margin: 0.03}
  - {id: gap, probe: gender, metric: group_gap, over: gender, no_worse_than: baseline, margin: 0.03}
"""
PEOPLE = 120


def photographs(copies: int = 1) -> Any:
    """Of 60 men and 60 women, one to four photographs each; or as many `copies` of one."""
    rng = np.random.default_rng(0)
    times = np.full(PEOPLE, copies) if copies > 1 else rng.integers(1, 5, PEOPLE)
    person = np.repeat(np.arange(PEOPLE), times)
    return pd.DataFrame({
        "file": [f"{at:04d}.jpg" for at in range(person.size)],
        "person": [f"person{one:03d}" for one in person],
        "gender": np.where(person % 2, "Female", "Male"),
        "number": person,
    })  # fmt: skip


def repository(root: Path, table: Any, cluster: str | None = "person") -> fairgate.Dataset:
    """The photographs as labels, and tables of P(true label): everybody has a change of their own."""
    options: dict[str, Any] = {"attributes": ["gender"], "subject": "person", "root": root}
    dataset = fairgate.import_images(table, None, "people", cluster=cluster, **options)
    (root / "fairness_suites").mkdir(exist_ok=True)
    (root / "fairness_suites" / "people.yaml").write_text(SUITE, encoding="utf-8")
    own = np.random.default_rng(1).uniform(0.6, 0.8, PEOPLE)
    moved = np.random.default_rng(2).normal(0, 0.05, PEOPLE)
    women = np.arange(PEOPLE) % 2 == 1
    for name, change in (("base", 0.0), ("tuned", moved), ("worse", moved - 0.2 * women)):
        true = (own + change)[table["number"]]
        man = np.where(table["gender"] == "Male", true, 1 - true)
        scores = pd.DataFrame({"file": table["file"], "a photo of a man": man, "a photo of a woman": 1 - man})
        scores.to_csv(root / f"{name}.csv", index=False)
    return dataset


def judged(root: Path, model: str = "tuned") -> RunRecord:
    prepared = gate.prepare("people", root)
    uris = [f"scores:{name}.csv?values=probability" for name in (model, "base")]
    typed = {"model": uris[0], "baseline": f"model:{uris[1]}", "mlflow": "off", "cache": "off"}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    return gate.evaluate(prepared, settings, command="").record


def check(record: RunRecord, id_: str) -> CheckResult:
    return next(one for one in record.checks if one.id == id_)


def test_a_cluster_is_a_set_and_a_group_mean_is_of_its_images(tmp_path: Path) -> None:
    table = photographs()
    dataset = repository(tmp_path, table)
    assert (dataset.manifest.counterfactual, dataset.manifest.n_sets) == (False, PEOPLE)
    assert dataset.manifest.recipe["cluster_column"] == "person"
    record = judged(tmp_path)
    moved = np.random.default_rng(2).normal(0, 0.05, PEOPLE)[table["number"]]
    of = {gender: float(moved[table["gender"] == gender].mean()) for gender in ("Male", "Female")}
    for id_, centre in (("own", 0.0), ("gap", float(np.mean(list(of.values()))))):
        for group in check(record, id_).groups:
            assert group.n_sets == PEOPLE // 2
            assert group.n_images == int((table["gender"] == group.group).sum()) > group.n_sets
            assert group.delta == pytest.approx(of[group.group] - centre, abs=1e-12)


def test_a_loss_of_one_group_is_found_among_clusters(tmp_path: Path) -> None:
    repository(tmp_path, photographs())
    gap = check(judged(tmp_path, "worse"), "gap")
    assert (gap.verdict, gap.worst_group) == ("fail", "Female")
    assert "the mean of all groups" in gap.reason


def test_copies_in_their_clusters_change_no_limit_and_taken_as_images_they_halve_it(tmp_path: Path) -> None:
    widths: dict[str, dict[str, float]] = {}
    copied = photographs(copies=4)
    once = copied.drop_duplicates("person").reset_index(drop=True)
    for name, table, cluster in (("once", once, None), ("copies", copied, "person"), ("loose", copied, None)):
        (tmp_path / name).mkdir()
        repository(tmp_path / name, table, cluster)
        record = judged(tmp_path / name)
        widths[name] = {}
        for id_ in ("own", "gap"):
            women = next(group for group in check(record, id_).groups if group.group == "Female")
            assert women.delta_lo is not None
            assert women.delta_hi is not None
            widths[name][id_] = women.delta_hi - women.delta_lo
    for id_ in ("own", "gap"):
        assert widths["copies"][id_] == pytest.approx(widths["once"][id_], rel=0.05), id_
        assert widths["loose"][id_] == pytest.approx(widths["once"][id_] / 2, rel=0.15), id_


def test_one_cluster_for_every_image_of_a_group_settles_nothing(tmp_path: Path) -> None:
    repository(tmp_path, photographs().sort_values("gender"), "gender")
    record = judged(tmp_path, "worse")
    assert {check(record, id_).verdict for id_ in ("own", "gap")} == {"inconclusive"}


def test_groups_that_share_clusters_are_not_compared_with_each_other(tmp_path: Path) -> None:
    table = photographs().assign(shelf=lambda rows: [f"{number // 2:03d}" for number in rows["number"]])
    repository(tmp_path, table, "shelf")
    record = judged(tmp_path)
    assert check(record, "own").verdict != "error"
    assert check(record, "gap").verdict == "error"
    assert "60 clusters have images of several groups, such as '000'" in check(record, "gap").reason


def test_other_clusters_are_another_dataset(tmp_path: Path) -> None:
    clusters = [("loose", None), ("people", "person"), ("genders", "gender")]
    found = set()
    for name, cluster in clusters:
        (tmp_path / name).mkdir()
        found.add(repository(tmp_path / name, photographs().sort_values("gender", kind="stable"), cluster).fingerprint)
    assert len(found) == len(clusters)


@pytest.mark.parametrize(
    ("cells", "options", "problem"),
    [
        (["a", "b", "a"], {}, "not one after another"),
        (["a", "", "b"], {}, "column 'who' is empty"),
        (["a", "a", "b"], {"cluster": "whom"}, "no column 'whom'"),
        (["a", "a", "b"], {"set_column": "who", "member_column": "file"}, "and both are named"),
    ],
)
def test_clusters_that_cannot_be_read_are_refused(
    tmp_path: Path, cells: list[str], options: dict[str, str], problem: str
) -> None:
    table = pd.DataFrame({"file": ["1", "2", "3"], "who": cells, "gender": ["f", "f", "m"]})
    given = {"cluster": "who", "subject": "person", **options}
    with pytest.raises(DatasetError, match=problem):
        fairgate.import_images(table, None, "people", attributes=["gender"], root=tmp_path, **given)


def test_several_sets_of_a_person_are_not_taken_for_independent_ones(tmp_path: Path) -> None:
    """Two sets of one person: the message names what keeps the person the unit."""
    table = pd.DataFrame({"file": list("1234"), "who": list("pppp"), "set": list("aabb"), "gender": list("fmfm")})
    options: dict[str, Any] = {"set_column": "set", "member_column": "gender", "cluster": "who", "root": tmp_path}
    with pytest.raises(DatasetError, match="and both are named") as refused:
        fairgate.import_images(table, None, "people", attributes=["gender"], subject="person", **options)
    assert refused.value.remedy is not None
    assert "of clusters with several sets, keep one set each" in refused.value.remedy


def test_a_photograph_of_several_questions_is_one_cluster_over_all_subjects(tmp_path: Path) -> None:
    table = pd.DataFrame({
        "file": list("1234"), "photo": list("ppqq"), "about": list("xyxy"), "gender": list("ffmm"),
    })  # fmt: skip
    options: dict[str, Any] = {"attributes": ["gender"], "subject_column": "about", "root": tmp_path}
    dataset = fairgate.import_images(table, None, "people", cluster="photo", **options)
    assert dataset.manifest.n_sets == 2
    assert dataset.manifest.counts.subjects == {"x": 2, "y": 2}
