"""The suite of traits that the page of paper 3 quotes names trait and group, on a made release of traits."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fairgate import gate
from fairgate.builds.recipes.social_counterfactuals import ATTRIBUTES, TEMPLATES, caption_set
from fairgate.data import write_dataset
from fairgate.records import CheckResult
from fairgate.suites import resolve

SUITE = Path(__file__).parents[2] / "docs" / "evidence" / "papers" / "fairness_suites" / "traits.yaml"
TRAITS, SETS = ("friendly", "honest", "creative", "lazy", "warm", "moral"), 40
PREFIXES = ("", "a photo of ", "a picture of ", "an image of ")
GROUPS = list(product(ATTRIBUTES["race"], ATTRIBUTES["gender"]))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the suite, a release of six traits, and two models' similarities, one with a planted change."""
    root = tmp_path_factory.mktemp("traits")
    (root / "fairness_suites").mkdir()
    (root / "fairness_suites" / "traits.yaml").write_bytes(SUITE.read_bytes())
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, "PNG")
    words = {name: ATTRIBUTES[name] for name in ("race", "gender")}
    rows = [
        {"image": buffer.getvalue(), "path": "x.png", "subject": trait, "set_id": f"{trait}-{number}", **member}
        for trait, number in product(TRAITS, range(SETS))
        for member in caption_set("A photo of", trait, words, TEMPLATES["traits"])
    ]
    attributes = {name: list(groups) for name, groups in words.items()}
    given = {"name": "traits", "version": "v1", "recipe": {"name": "made"}, "licence": "CC0-1.0"}
    write_dataset(root / "datasets" / "traits" / "v1", rows, attributes=attributes, counterfactual=True, **given)  # type: ignore[arg-type]
    for name, planted in (("same", 0.0), ("changed", 0.3)):
        scores(root / f"{name}.csv", rows, planted)
    return root


def scores(path: Path, rows: list[dict[str, object]], planted: float) -> None:
    """Similarities; `planted` is taken from the Black women of `honest`."""
    rng = np.random.default_rng(4)
    prompts = [
        f"{prefix}{'an' if trait == 'honest' else 'a'} {trait} person" for trait in TRAITS for prefix in PREFIXES
    ]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["set_id", "member", *prompts])
        for row in rows:
            hit = (row["subject"], row["race"], row["gender"]) == ("honest", "Black", "female")
            own = rng.normal(0, 0.08)
            values = [
                (0.4 if f" {row['subject']} " in prompt else 0.0) + own - planted * hit * (" honest " in prompt)
                for prompt in prompts
            ]
            writer.writerow([row["set_id"], row["member"], *(f"{value:.6f}" for value in values)])


def checks(root: Path, model: str, baseline: str) -> Mapping[str, CheckResult]:
    typed = {"model": f"scores:{model}.csv?values=cosine", "baseline": baseline, "mlflow": "off"}
    prepared = gate.prepare("traits", root)
    record = gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="x").record
    return {one.item: one for one in record.checks}


def test_a_group_that_a_trait_no_longer_brings_up_is_named_with_its_trait(root: Path) -> None:
    same = checks(root, "same", "none")
    assert [one.reason for one in same.values() if one.verdict == "error"][:3] == []
    assert {one.verdict for one in same.values() if one.rule == "at_most"} == {"pass"}
    changed = checks(root, "changed", "model:scores:same.csv?values=cosine")
    failed = [one for one in changed.values() if one.verdict == "fail"]
    assert [one.item for one in failed] == ["gender-within-race[honest]"]
    assert failed[0].worst_group == "Black × male"
