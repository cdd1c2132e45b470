"""Detectors by group: persons of one group that are missed fail, by group and subject; boxes everywhere find nobody."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from test_gate_verdicts import by_item, evaluate
from toy_repository import SUITE, Toy, members, rows

from fairgate.data import read_dataset, write_dataset
from fairgate.ground.errors import DatasetError, ScoresError, SuiteError
from fairgate.models import Detections, open_scorer
from fairgate.probes.detection import DetectionProbe
from fairgate.records import CheckResult

SETS = 120
BOX = {"box_left": 2, "box_top": 1, "box_right": 6, "box_bottom": 7}
PERSON, BESIDE, EVERYTHING = (2, 1, 6, 7), (0, 0, 2, 2), (0, 0, 8, 8)
PROBE = """  people:
    kind: detection
    threshold: 0.5
"""
CHECKS = """\
  - {id: found, probe: people, metric: detection_recall, over: each, at_least: 0.8}
  - {id: found-as-before, probe: people, metric: detection_recall, by: subject, no_worse_than: baseline, margin: 0.1}
  - {id: gap, probe: people, metric: detection_gap, over: crossed, by: subject, no_worse_than: baseline, margin: 0.1}
  - {id: nobody, probe: people, metric: false_boxes, no_worse_than: baseline, margin: 0.1}
"""


def suite(probe: str = PROBE, checks: str = CHECKS) -> str:
    head = SUITE.split("probes:")[0].replace("scores:tuned.csv?values=logit", "detections:tuned.csv")
    head = head.replace("scores:base.csv?values=logit", "detections:base.csv")
    return f"{head}probes:\n{probe}decision: {{draws: 1000}}\nchecks:\n{checks}"


def write_boxes(path: Path, seed: int, missed: Mapping[tuple[str, str, str], float] = {}, also: int = 0) -> None:
    """A box on the person, at a score above the threshold but for one image in 50, or for a share that is `missed`;
    and `also` boxes beside it with higher scores."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as handle:
        table = csv.writer(handle)
        table.writerow(["set_id", "member", "label", "score", "left", "top", "right", "bottom"])
        for subject, set_id, tone, gender in members(SETS):
            lost = rng.random() < missed.get((subject, tone, gender), 0.02)
            named = [set_id, f"{tone}-{gender}"]
            table.writerows([*named, "person", 0.99, *BESIDE] for _ in range(also))
            if lost and not also and rng.random() < 0.5:
                table.writerow([*named, "", "", "", "", "", ""])
            else:
                table.writerow([*named, "person", 0.3 if lost else 0.9, *PERSON])
                table.writerow([*named, "car", 0.95, *EVERYTHING])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    root = tmp_path_factory.mktemp("detection")
    options = {"name": "toy", "version": "v1", "recipe": {"name": "toy"}, "licence": "CC0-1.0", "counterfactual": True}
    groups = {"skin_tone": ["light", "dark"], "gender": ["male", "female"]}
    write_dataset(root / "datasets/toy/v1", ({**row, **BOX} for row in rows(SETS)), attributes=groups, **options)
    (root / "fairness_suites").mkdir()
    write_boxes(root / "base.csv", 1)
    write_boxes(root / "tuned.csv", 2)
    write_boxes(root / "biased.csv", 3, {("doctor", "dark", "female"): 0.6})
    write_boxes(root / "everywhere.csv", 4, also=20)
    return Toy(root)


@pytest.fixture
def toy(made: Toy) -> Toy:
    made.write_suite(suite())
    return made


def results(toy: Toy, model: str) -> dict[str, CheckResult]:
    return by_item(evaluate(toy, model=f"detections:{model}.csv").record)


def test_a_detector_that_finds_everybody_alike_passes(toy: Toy) -> None:
    found = results(toy, "tuned")
    assert {check.verdict for check in found.values()} == {"pass"}, {i: c.reason for i, c in found.items()}
    assert found["gap[doctor]"].delta != 0


def test_a_group_that_is_missed_fails_by_subject_and_group_and_nowhere_else(toy: Toy) -> None:
    found = results(toy, "biased")
    failed = {item for item, check in found.items() if check.verdict == "fail"}
    assert failed == {"found-as-before[doctor]", "gap[doctor]"}
    groups = {group.group: group.verdict for group in found["gap[doctor]"].groups}
    assert groups.pop("dark × female") == "fail"
    assert "fail" not in groups.values()


def test_a_detector_that_returns_boxes_everywhere_finds_nobody(toy: Toy) -> None:
    found = results(toy, "everywhere")
    assert found["found"].value == 0
    assert found["nobody"].verdict == "fail"
    assert found["nobody"].value == pytest.approx(20.98, abs=0.02)  # 20, and most persons\' own


def test_a_release_without_boxes_is_refused_unless_a_person_may_be_anywhere(tmp_path: Path, toy: Toy) -> None:
    other = Toy(tmp_path)
    options = {"name": "toy", "version": "v1", "recipe": {"name": "toy"}, "licence": "CC0-1.0", "counterfactual": True}
    groups = {"skin_tone": ["light", "dark"], "gender": ["male", "female"]}
    write_dataset(tmp_path / "datasets/toy/v1", rows(SETS), attributes=groups, **options)
    (tmp_path / "fairness_suites").mkdir()
    for name in ("base", "tuned"):
        (tmp_path / f"{name}.csv").write_bytes((toy.root / f"{name}.csv").read_bytes())
    other.write_suite(suite())
    assert {check.verdict for check in results(other, "tuned").values()} == {"error"}
    assert "records no boxes" in results(other, "tuned")["found"].reason
    other.write_suite(suite(PROBE + "    place: anywhere\n"))
    assert {check.verdict for check in results(other, "tuned").values()} == {"pass"}


def test_a_box_without_an_area_is_refused(tmp_path: Path) -> None:
    options = {"name": "toy", "version": "v1", "recipe": {"name": "toy"}, "licence": "CC0-1.0", "counterfactual": True}
    groups = {"skin_tone": ["light", "dark"], "gender": ["male", "female"]}
    drawn = ({**row, **BOX, "box_left": 6 if number == 5 else 2} for number, row in enumerate(rows(SETS)))
    write_dataset(tmp_path / "toy/v1", drawn, attributes=groups, **options)
    with pytest.raises(DatasetError, match="no box with an area for 1 of its 960 images, such as set 'chef-001'"):
        read_dataset(tmp_path / "toy/v1").index.boxes()


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("chef-000,light-male,person", "chef-999,light-male,person", "lacks 1 of the dataset's images"),
        ("2,1,6,7", "6,1,2,7", "boxes have no area"),
        ("person,0.9,2,1,6,7", "person,,2,1,6,7", "boxes have no score"),
        ("person,0.9,", "person,1.9,", "outside \\[0, 1\\]"),
        ("label,score", "label,confidence", "no column is called 'score'"),
        ("left,top", "x,top", "no column for the prompt 'left'"),
        ("person,", "persons,", "no box of the table has the label 'person'"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(toy: Toy, old: str, new: str, wanted: str) -> None:
    write_boxes(toy.root / "odd.csv", 5)
    text = (toy.root / "odd.csv").read_text().replace("chef-000,light-male,car,0.95,0,0,8,8\n", "")
    assert old in text
    (toy.root / "odd.csv").write_text(text.replace(old, new))
    with pytest.raises(ScoresError, match=wanted):
        raise_error(toy)


def raise_error(toy: Toy) -> None:
    dataset = read_dataset(toy.root / "datasets/toy/v1")
    model = open_scorer("detections:odd.csv", dataset, base=toy.root)
    model.detect("person")  # type: ignore[attr-defined] # it is a detector


def test_a_suite_of_gaps_alone_is_refused_with_the_check_to_add(toy: Toy) -> None:
    toy.write_suite(suite(checks="  - {id: gap, probe: people, metric: detection_gap, over: each, at_least: -0.1}\n"))
    with pytest.raises(SuiteError, match="metric: detection_recall, over: each"):
        evaluate(toy)


class Scripted:
    """A detector of three images: 10 x 10 pixels, the person in the left half."""

    def detect(self, _: str) -> Detections:
        row = np.array([0, 0, 0, 2])
        corners = np.array([[0, 0, 5, 10], [0, 0, 5, 8], [5, 0, 10, 10], [0, 0, 5, 4]], dtype=np.float64)
        return Detections(row, np.array([0.9, 0.8, 0.7, 0.6]), corners)


class Recorded:
    set_id = np.array(["a", "b", "c"])

    def boxes(self) -> np.ndarray:
        return np.tile([0.0, 0.0, 5.0, 10.0], (3, 1))


@pytest.mark.parametrize(
    ("keys", "found", "false_boxes"),
    [
        ({"threshold": 0.5}, [1, 0, 0], [2, 0, 1]),  # the third image's box covers 0.4 of the person
        ({"threshold": 0.5, "iou": 0.4}, [1, 0, 1], [2, 0, 0]),
        ({"threshold": 0.75, "iou": 0.4}, [1, 0, 0], [1, 0, 0]),
        ({"threshold": 0.5, "place": "anywhere"}, [1, 0, 1], [2, 0, 0]),
    ],
)
def test_who_is_found_by_hand(keys: dict[str, object], found: list[float], false_boxes: list[float]) -> None:
    probe = DetectionProbe(kind="detection", **keys)  # type: ignore[arg-type]
    answer = probe.run("people", Scripted(), Recorded(), open_scorer)["people"]  # type: ignore[arg-type]
    assert answer.value.tolist() == found
    assert answer.more["false_boxes"].tolist() == false_boxes


def test_the_score_and_overlap_of_the_best_box_are_kept() -> None:
    probe = DetectionProbe(kind="detection", threshold=0.5)
    more = probe.run("people", Scripted(), Recorded(), open_scorer)["people"].more  # type: ignore[arg-type]
    assert more["score"].tolist() == [0.9, 0, 0]
    assert more["iou"].tolist() == pytest.approx([1, 0, 0.4])
