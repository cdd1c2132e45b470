"""`group_gap` where images form no sets: a group is held against the mean of all groups, each weighing the same."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported_photographs import import_images

from fairgate import gate
from fairgate.ground.errors import SuiteError
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import resolve

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
decision: {draws: 1000}
checks:
  - {id: useful, probe: gender, metric: p_true, no_worse_than: baseline, margin: 0.03}
  - {id: gap, probe: gender, metric: group_gap, over: [region, gender], at_least: -0.1}
  - {id: regression, probe: gender, metric: group_gap, over: [region, gender], no_worse_than: baseline, margin: 0.03}
"""
REGIONS = {"north": 400, "south": 200, "east": 100}
GENDERS = ["Male", "Female"]
GROUPS = [f"{region} × {gender}" for region, gender in product(REGIONS, GENDERS)]
IMAGES = [(region, GENDERS[number % 2], number) for region, count in REGIONS.items() for number in range(count)]
GROUP_OF = np.array([f"{region} × {gender}" for region, gender, _ in IMAGES])


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """700 labelled images, no files, of six groups of 50 to 200; `base` and `tuned` differ by noise alone."""
    import_people(tmp_path, [(region, gender, number) for region, gender, number in IMAGES], "people")
    (tmp_path / "fairness_suites").mkdir()
    write_suite(tmp_path, SUITE)
    scores(tmp_path, "base", seed=1)
    scores(tmp_path, "tuned", seed=2)
    return tmp_path


def import_people(root: Path, images: list[tuple[str, str, int]], name: str) -> None:
    lines = [f"{region}/{number}.jpg,{gender},{region}" for region, gender, number in images]
    (root / "labels.csv").write_text("\n".join(["file,gender,region", *lines]), encoding="utf-8")
    groups = {"gender": GENDERS, "region": list(REGIONS)}
    import_images(root / "labels.csv", None, name, attributes=groups, subject="person", root=root / "datasets")


def write_suite(root: Path, text: str) -> None:
    (root / "fairness_suites" / "people.yaml").write_text(text, encoding="utf-8")


def scores(root: Path, name: str, *, seed: int, lost: Mapping[str, float] | float = 0.0) -> np.ndarray:
    """A table of P(true label): images of their own, noise of `seed`, less what a group has `lost`. Returns them."""
    own, noise = np.random.default_rng(0), np.random.default_rng(seed)
    taken = np.array([lost if isinstance(lost, float) else lost.get(group, 0.0) for group in GROUP_OF])
    p = own.uniform(0.6, 0.8, len(IMAGES)) + noise.normal(0, 0.02, len(IMAGES)) - taken
    table = ["file,a photo of a man,a photo of a woman"]
    for (region, gender, number), true in zip(IMAGES, p.tolist(), strict=True):
        man = true if gender == "Male" else 1 - true
        table.append(f"{region}/{number}.jpg,{man!r},{1 - man!r}")
    (root / f"{name}.csv").write_text("\n".join(table), encoding="utf-8")
    return p


def gaps(p: np.ndarray) -> dict[str, float]:
    """Each group's mean less the mean of all groups' means."""
    means = {group: float(p[group == GROUP_OF].mean()) for group in GROUPS}
    return {group: mean - float(np.mean(list(means.values()))) for group, mean in means.items()}


def settled(root: Path, model: str, baseline: str | None = "base") -> tuple[gate.Prepared, Any]:
    prepared = gate.prepare("people", root)
    typed = {
        "model": f"scores:{model}.csv?values=probability",
        "baseline": f"model:scores:{baseline}.csv?values=probability" if baseline else "none",
        "mlflow": "off",
        "cache": "off",
        "report": str(root / "out"),
    }
    return prepared, resolve(prepared.loaded.suite, typed, environment={})


def run(root: Path, model: str, baseline: str | None = "base") -> RunRecord:
    prepared, settings = settled(root, model, baseline)
    return gate.publish(gate.evaluate(prepared, settings, command=""), prepared, settings).record


def check(record: RunRecord, id_: str = "regression") -> CheckResult:
    return next(one for one in record.checks if one.id == id_)


def test_a_loss_planted_in_one_group_is_found_and_named(people: Path) -> None:
    before = gaps(scores(people, "base", seed=1))
    after = gaps(scores(people, "worse", seed=2, lost={"south × Female": 0.1}))
    told = check(run(people, "worse"))
    assert (told.verdict, told.worst_group) == ("fail", "south × Female")
    assert told.value == pytest.approx(after["south × Female"])
    assert told.baseline == pytest.approx(before["south × Female"])
    assert told.delta == pytest.approx(after["south × Female"] - before["south × Female"])
    assert -0.09 < told.delta < -0.075  # of 0.1, one sixth is the mean's own
    assert [group.group for group in told.groups] == GROUPS
    for group in told.groups:
        assert group.value == pytest.approx(after[group.group])
        assert group.delta == pytest.approx(after[group.group] - before[group.group])
        assert group.verdict == ("fail" if group.group == "south × Female" else "pass")
        assert group.n_sets == (group.group == GROUP_OF).sum()
    assert told.reason.startswith("south × Female 0.0")
    assert " of the mean of all groups before and 0.084 behind now, −0.086 [−0.0" in told.reason


def test_the_worst_images_are_of_the_group_that_fell_and_fell_the_most(people: Path) -> None:
    old = scores(people, "base", seed=1)
    new = scores(people, "worse", seed=2, lost={"south × Female": 0.1})
    shown = [one.set_id for one in check(run(people, "worse")).worst_sets]
    fallen = np.where(GROUP_OF == "south × Female", new - old, np.inf)
    assert shown == [f"south-{IMAGES[at][2]}" for at in np.argsort(fallen)[:6]]


def test_the_page_speaks_of_groups_and_never_of_set_mates(people: Path) -> None:
    scores(people, "worse", seed=2, lost={"south × Female": 0.1})
    run(people, "worse")
    page = (people / "out" / "report.html").read_text(encoding="utf-8")
    assert "ahead of the mean of all groups before and 0.084 behind now; margin 0.030" in page
    assert "set-mates" not in page


def test_noise_alone_passes_and_a_margin_of_nothing_raises_no_alarm(people: Path) -> None:
    record = run(people, "tuned")
    assert record.verdict == "pass"
    write_suite(
        people,
        SUITE.replace(
            "group_gap, over: [region, gender], no_worse_than: baseline, margin: 0.03",
            "group_gap, over: [region, gender], no_worse_than: baseline, margin: 0",
        ),
    )
    assert check(run(people, "tuned")).verdict == "inconclusive"


def test_a_loss_that_all_groups_share_is_no_gap_and_p_true_sees_it(people: Path) -> None:
    scores(people, "lower", seed=2, lost=0.1)
    record = run(people, "lower")
    assert check(record).verdict == "pass"
    assert abs(check(record).delta or 1.0) < 0.01
    assert check(record, "useful").verdict == "fail"
    assert check(record, "useful").delta == pytest.approx(-0.1, abs=0.01)


def test_a_checkpoint_against_itself_is_refused(people: Path) -> None:
    record = run(people, "base")
    assert record.verdict == "error"
    assert "the baseline is the candidate" in check(record).reason


def test_the_worst_group_is_held_to_a_bound_with_an_interval(people: Path) -> None:
    found = gaps(scores(people, "worse", seed=2, lost={"east × Male": 0.2}))
    told = check(run(people, "worse", None), "gap")
    assert (told.verdict, told.worst_group) == ("fail", "east × Male")
    assert told.value == pytest.approx(found["east × Male"])
    assert sum(group.value or 0.0 for group in told.groups) == pytest.approx(0.0, abs=1e-12)
    assert told.interval == "95% bootstrap of images, limits of the worst group"
    assert told.lo is not None
    assert told.hi is not None
    assert -0.2 < told.lo < -1 / 6 < told.hi < -0.13
    assert check(run(people, "tuned", None), "gap").verdict == "pass"


def test_every_group_weighs_the_same_however_many_images_show_it(people: Path) -> None:
    found = gaps(scores(people, "worse", seed=2, lost={"north × Male": 0.12, "north × Female": 0.12}))
    told = check(run(people, "worse"))
    values = {group.group: group.value for group in told.groups}
    assert told.test == "max-t bootstrap within groups of images"
    assert values == pytest.approx(found)
    assert values["north × Male"] == pytest.approx(-0.08, abs=0.02)  # two of six groups, four of seven images


def test_a_group_of_five_images_is_not_judged_and_the_others_keep_their_interval(people: Path) -> None:
    rare = [
        at for at, (region, gender, number) in enumerate(IMAGES) if region != "east" or gender == "Male" or number < 10
    ]
    import_people(people, [IMAGES[at] for at in rare], "few")
    for name in ("base", "tuned"):
        table = (people / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        (people / f"{name}.csv").write_text("\n".join([table[0], *(table[at + 1] for at in rare)]), encoding="utf-8")
    write_suite(people, SUITE.replace("dataset: people", "dataset: few"))
    told = check(run(people, "tuned"), "gap")
    assert told.verdict == "inconclusive"
    assert told.reason.endswith("; east × Female is in only 5 images; the suite judges from 30 (groups.min_sets)")
    assert told.interval == "95% bootstrap of images, limits of the worst group"


def test_what_needs_set_mates_or_mixes_families_is_refused(people: Path) -> None:
    gap = "metric: group_gap, over: [region, gender], at_least: -0.1"
    write_suite(people, SUITE.replace(gap, "metric: fairness, at_least: 0.9"))
    with pytest.raises(SuiteError, match="inside counterfactual sets") as caught:
        gate.prepare("people", people)
    assert "metric: group_gap" in caught.value.remedy


def test_each_attribute_has_groups_that_are_compared_with_each_other(people: Path) -> None:
    """A check `over: each` has the groups of a check of each attribute, with their values and verdicts."""
    gap = "  - {{id: {}, probe: gender, metric: group_gap, over: {}, no_worse_than: baseline, margin: 0.03}}\n"
    overs = {"all": "each", "genders": "gender", "regions": "region"}
    write_suite(people, SUITE + "".join(gap.format(*each) for each in overs.items()))
    scores(people, "worse", seed=2, lost={f"south × {gender}": 0.15 for gender in GENDERS})
    record = run(people, "worse")
    told, alone = check(record, "all"), [check(record, name) for name in ("genders", "regions")]
    assert (told.verdict, told.worst_group) == ("fail", "south")
    single = {group.group: group for found in alone for group in found.groups}
    assert [group.group for group in told.groups] == [*GENDERS, *REGIONS]
    for group in told.groups:
        assert (group.value, group.verdict) == (single[group.group].value, single[group.group].verdict)
        assert group.delta == pytest.approx(single[group.group].delta)
    assert told.value == min(found.value for found in alone if found.value is not None)
    assert told.lo is not None
