"""The suites of docs/evidence/datasets, on small releases in the published layouts: they load, plan and judge."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from model_world import (
    save_local_dir,
    tiny_model,  # noqa: F401 -- a fixture
)
from small_originals import drawn, write_hub_parquet
from test_lists_of_addresses import OO, table
from test_published_fairface import CLASSES
from test_published_social_counterfactuals import rows_of, written

from fairgate import gate
from fairgate.data import open_dataset
from fairgate.data.published import get_published, published_names
from fairgate.data.published.fairface import AGES, RACES
from fairgate.data.published.pairs import MEMBERS
from fairgate.probes.question_items import items_of
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import load_suite, resolve

SUITES = Path(__file__).parents[3] / "docs" / "evidence" / "datasets" / "fairness_suites"
NAMES = ("fairface_people", "social_counterfactuals", "pairs", "visogender")
FEW_DRAWS = "decision: {draws: 500}\n"


def test_the_page_has_every_suite_with_its_min_sets_and_the_files_of_every_dataset() -> None:
    page = (SUITES.parents[2] / "datasets.md").read_text(encoding="utf-8")
    for name in NAMES:
        (line,) = (line for line in page.splitlines() if line.startswith(f"| [{name}]"))
        assert line.split(" | ")[2] == str(load_suite(SUITES / f"{name}.yaml", SUITES).suite.groups.min_sets)
    files = page.partition("## Files that `--from` looks for")[2].partition("## Suites")[0]
    assert re.findall(r"^\| `(\w+)` \|", files, re.MULTILINE) == published_names()


def judged(root: Path, name: str, model: str, **changes: str) -> RunRecord:
    """A run of a suite with a few of its numbers made as small as the release is."""
    text = (SUITES / f"{name}.yaml").read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    text = text.replace("taxonomy: so-b-it", "taxonomy: so-b-it\n    categories: [healthcare]") + FEW_DRAWS
    (root / "fairness_suites").mkdir(exist_ok=True)
    (root / "fairness_suites" / f"{name}.yaml").write_text(text)
    prepared = gate.prepare(name, root)
    typed = {"model": model, "baseline": "none", "mlflow": "off", "cache": "off"}
    return gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="x").record


def checks(record: RunRecord) -> dict[str, CheckResult]:
    """Checks by id; nothing in them could not be computed."""
    assert [check.reason for check in record.checks if check.verdict == "error"] == []
    return {check.item: check for check in record.checks}


def released(root: Path, given: Path, name: str) -> Path:
    get_published(name, root / "cache", folder=given, root=root / "datasets")
    return root


def test_every_suite_of_the_page_is_known_here():
    assert {path.stem for path in SUITES.glob("*.yaml")} == set(NAMES)


def test_the_suite_of_fairface_finds_whom_a_tiny_model_takes_for_what(tmp_path, tiny_model):  # noqa: F811
    people = [
        {"race": race, "gender": gender, "age": age} for race, gender, age in product(RACES, ("Male", "Female"), AGES)
    ]
    columns = {name: [CLASSES[name].index(one[name]) for one in people] for name in CLASSES}
    pictures = [{"bytes": drawn(number, "JPEG"), "path": None} for number in range(len(people))]
    write_hub_parquet(tmp_path / "given/0.25/validation-0.parquet", {"image": pictures, **columns}, CLASSES)
    root = released(tmp_path, tmp_path / "given", "fairface")
    save_local_dir(root / "tiny", tiny_model)
    found = checks(judged(root, "fairface_people", "open_clip:local-dir:tiny", **{"min_sets: 100": "min_sets: 5"}))
    denigrated = found["nobody-denigrated"]
    assert {group.group for group in denigrated.groups} == {
        f"{race} × {g}" for race in RACES for g in ("Male", "Female")
    }
    assert found["still-useful"].value is not None
    assert denigrated.value is not None
    assert denigrated.verdict == "fail", "random weights do not know nine labels apart"


@pytest.mark.nightly
def test_the_suite_of_social_counterfactuals_searches_sets_that_are_whole(tmp_path, tiny_model):  # noqa: F811
    rows = [
        row
        for subject, number in [*product(("doctor", "chef"), range(11)), ("roofer", 0)]
        for row in rows_of(f"race_gender_{subject}_{number}", ("race", "gender"), subject, "A photo of a")
    ]
    given = written(tmp_path / "given", rows)
    made = get_published("social_counterfactuals", tmp_path, folder=given, root=tmp_path / "datasets", fewest_sets=11)
    assert made.left_out == {"images of subjects of fewer than 11 sets": 12}
    save_local_dir(tmp_path / "tiny", tiny_model)
    small = {"min_sets: 30": "min_sets: 5", "k: 48": "k: 24", "k: 8,": "k: 4,"}
    found = checks(judged(tmp_path, "social_counterfactuals", "open_clip:local-dir:tiny", **small))
    assert found["skew-at-12[doctor]"].value is not None
    assert found["gender-within-race"].value is not None
    assert found["skew-grew"].verdict == "inconclusive", "there is no baseline"


def answers(root: Path, name: str, answer: Callable[[Any, int], dict[str, str]]) -> str:
    """A table of answers: for every image, prompt by prompt."""
    index = open_dataset(name, root / "datasets").index
    with (root / "answers.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["set_id", "member", "prompt", "answer"])
        for row in range(len(index)):
            for prompt, said in answer(index, row).items():
                writer.writerow([index.set_id[row], index.member[row], prompt, said])
    return "answers:answers.csv"


def test_the_suite_of_pairs_finds_whom_a_model_takes_for_a_criminal(tmp_path):
    for scene, (number, member) in product(range(6), enumerate(MEMBERS)):
        path = tmp_path / "given" / "data" / "status" / f"scene_{scene}" / f"{member}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(drawn(10 * scene + number))
    root = released(tmp_path, tmp_path / "given", "pairs")
    probes = load_suite(SUITES / "pairs.yaml", root).suite.probes
    prompts = {name: probe.texts(()) for name, probe in probes.items()}

    def answer(biased: bool) -> Callable[[Any, int], dict[str, str]]:
        def said(index: Any, row: int) -> dict[str, str]:
            race, gender = index.attributes["race"][row], index.attributes["gender"][row]
            crime = "Yes." if biased and (race, gender) == ("Black", "man") else "I cannot tell."
            words = {"seen": f"A {gender}.", "crime": crime, "status": "I cannot tell.", "job": "I cannot tell."}
            return {prompts[name][0]: words[name] for name in prompts}

        return said

    small = {"min_sets: 30": "min_sets: 5"}
    fair = checks(judged(root, "pairs", answers(root, "pairs", answer(False)), **small))
    assert {item: check.reason for item, check in fair.items() if check.verdict != "pass"} == {}
    biased = checks(judged(root, "pairs", answers(root, "pairs", answer(True)), **small))
    failed = {item for item, check in biased.items() if check.verdict == "fail"}
    assert failed == {"criminal", "withholds-crime"}
    assert biased["criminal"].worst_group == "Black × man"


def test_the_suite_of_visogender_finds_a_model_that_goes_by_the_occupation(tmp_path):
    rows = [
        [f"OO_{n}", "medical", "hospital_worker", "doctor", "clipboard", "http://x.org", "Yes", gender]
        for n, gender in enumerate(("masculine", "feminine") * 6, start=1)
    ]
    folder = table(tmp_path / "given", "OO", OO, rows)
    for number in range(1, 13):
        (folder / f"OO_{number}.png").write_bytes(drawn(number))
    root = released(tmp_path, folder, "visogender")
    small = {"min_sets: 30": "min_sets: 5"}

    def sees(index: Any, row: int) -> dict[str, str]:
        return {asked(index, row): {"masculine": "His.", "feminine": "B. her"}[index.attributes["gender"][row]]}

    def assumes(index: Any, row: int) -> dict[str, str]:
        return {asked(index, row): "It is his clipboard."}

    for answer, wrong in ((sees, set()), (assumes, {"useful", "by-gender"})):
        found = checks(judged(root, "visogender", answers(root, "visogender", answer), **small))
        assert {item for item, check in found.items() if check.verdict == "fail"} == wrong
    assert {group.group for group in found["by-gender"].groups if group.verdict == "fail"} == {"feminine"}


def asked(index: Any, row: int) -> str:
    return items_of(index, (), letters=True)[row].prompt
