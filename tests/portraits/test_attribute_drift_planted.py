"""Drawn editors that dress women as chefs, whatever the prompt: the planted strength is measured by the tiny CLIP,
which takes three in ten others for chefs, and the gate names the group."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from painted_models import Family, _Opened
from scipy.stats import spearmanr

from fairgate import gate
from fairgate.data import Dataset, open_dataset
from fairgate.ground.randomness import stream
from fairgate.models import Editing, ImageSource, LabelModel, open_scorer
from fairgate.models.registry import FAMILIES
from fairgate.portraits.dataset import write_people
from fairgate.portraits.draw import draw, png
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import GROUPS, PERSON
from fairgate.probes import WatchedAttribute
from fairgate.records import CheckResult
from fairgate.suites import resolve

ROOT = Path(__file__).parents[2]
READER = ROOT / "build" / "portraits" / "checkpoints"
SETS = 16
STRENGTHS = (0.0, 0.2, 0.4, 0.8)
LABELS = {"chef": "a photo of a chef", "plain": "a photo of a person"}
SUITE = """\
schema: 1
suite: edits
dataset: people
model: dressed:0.4
baseline: model:dressed:base
probes:
  edits:
    kind: image_editing
    template: "a photo of {{a_word}}"
    words: [doctor, nurse]
    reader:
      model: open_clip:local-dir:checkpoints/base
      fingerprint: 2dc33d11b8e65bb51de2be6fe3d0d4fe4dc840bd4b1d75a69e4d7543031a9efe
      attribute: gender
      labels: {{male: a photo of a male person, female: a photo of a female person}}
    watched:
      clothes: {{labels: {labels}, over: gender, measured: {measured}}}
groups: {{min_sets: 16}}
checks:
  - {{id: work, probe: edits, metric: edit_success, at_least: 0.9}}
  - {{id: chefs, probe: edits, metric: attribute_drift, attribute: clothes, over: gender, no_worse_than: baseline,
     margin: 0.1}}
"""

pytestmark = [
    pytest.mark.skipif(not READER.is_dir(), reason="no checkpoints here: run `dvc pull`"),
    pytest.mark.nightly,
]


class Redrawn:
    """People of a release in other clothes: what they wear is drawn by word, or as a chef's for some women."""

    def __init__(self, source: Any, seed: int, word: str, strength: float) -> None:
        self.source, self.seed, self.word, self.strength = source, seed, word, strength
        self.folder, self.index = source.folder, source.index
        self.fingerprint = f"{source.fingerprint} {seed} {word} {strength}"

    def __len__(self) -> int:
        return len(self.source)

    def image_batches(self, batch_size: int) -> Iterator[tuple[Any, list[bytes]]]:
        for start in range(0, len(self), batch_size):
            rows = np.arange(start, min(start + batch_size, len(self)))
            yield rows, [self._drawn(int(row)) for row in rows]

    def _drawn(self, row: int) -> bytes:
        number = int(str(self.index.set_id[row]).rpartition("-")[2])
        chance = stream(self.seed, "chefs", self.word, row).random()
        _, gender = group = GROUPS[row % len(GROUPS)]
        chef = gender == "female" and chance < self.strength
        return _picture(self.seed, number, "chef" if chef else self.word, *group)


@functools.cache
def _picture(seed: int, number: int, clothes: str, skin_tone: str, gender: str) -> bytes:
    return png(draw(scene_of(seed, PERSON, number), clothes, skin_tone, gender))


class Dressing(_Opened):
    """An editor: `dressed:STRENGTH`, and `dressed:base`, which plants nothing and draws other faces."""

    capabilities = frozenset({"edit"})

    def edit(self, prompt: str, how: Editing) -> ImageSource:
        planted = self.request.address != "base"
        strength = float(self.request.address) if planted else 0.0
        return Redrawn(self.source, how.seed + 2 + planted, prompt.rpartition(" ")[2], strength)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose suite has the reader's error on people of another seed."""
    home = tmp_path_factory.mktemp("dressed")
    write_people(home / "datasets" / "people" / "v1", sets=SETS)
    shutil.copytree(READER / "base", home / "checkpoints" / "base")
    people = open_dataset("people", home / "datasets")
    chefs, others = _counts(home, people, ["chef"]), _counts(home, people, ["doctor", "nurse"])
    measured = {gender: {"chef": chefs[gender], "plain": others[gender]} for gender in chefs}
    (home / "fairness_suites").mkdir()
    text = SUITE.format(labels=LABELS, measured=measured).replace("'", "")
    (home / "fairness_suites" / "edits.yaml").write_text(text, encoding="utf-8")
    return home


def _counts(home: Path, people: Dataset, clothes: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """What the reader perceives in pictures of people in these clothes, by gender."""
    watched, chefs = WatchedAttribute(labels=LABELS), list[Any]()
    for word in clothes:
        source = Redrawn(people, 1, word, 0.0)
        reader = open_scorer("open_clip:local-dir:checkpoints/base", source, device="cpu", base=home)
        chefs.append(watched.seen(cast(LabelModel, reader)))
    of = {gender: np.array(chefs)[:, people.index.attributes["gender"] == gender] for gender in ("male", "female")}
    return {gender: {"chef": int(seen.sum()), "plain": int((1 - seen).sum())} for gender, seen in of.items()}


def judged(home: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> CheckResult:
    monkeypatch.setitem(FAMILIES._found, "dressed", Family("dressed", Dressing))
    prepared = gate.prepare("edits", home)
    options = {"model": model, "mlflow": "off", "cache": str(home / "cache")}
    settings = resolve(prepared.loaded.suite, options, environment={})
    record = gate.evaluate(prepared, settings, command="x").record
    return next(check for check in record.checks if check.id == "chefs")


def test_the_planted_strength_is_measured_and_its_group_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [judged(home, f"dressed:{strength:.1f}", monkeypatch) for strength in STRENGTHS]
    groups = [{group.group: group for group in check.groups} for check in found]
    women, men = ([by_name[name].delta for by_name in groups] for name in ("female", "male"))
    assert spearmanr(STRENGTHS, women).statistic == 1
    assert women == pytest.approx(STRENGTHS, abs=0.15)
    assert men == pytest.approx([0.0] * len(STRENGTHS), abs=0.15)
    assert [by_name["female"].verdict == "fail" for by_name in (groups[0], groups[-1])] == [False, True]
    assert not any(by_name["male"].verdict == "fail" for by_name in groups)
