"""How small a regression a suite can see, and what its table says of it."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console
from toy_repository import SUITE, Toy, toy_repository, write_scores_table

from fairgate import gate
from fairgate.ground.errors import BaselineError, SettingsError, SuiteError
from fairgate.records.schemas import schema_file, schema_of, schema_text
from fairgate.records.study import CheckPower, PowerRecord
from fairgate.reports.power_page import (
    assumptions,
    detectable_words,
    needed_words,
    power_html,
    power_lines,
    power_table,
    sparkline,
)
from fairgate.studies.power import suite_power
from fairgate.suites import resolve


@pytest.fixture(scope="session")
def power_toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A repository that no test writes to."""
    return toy_repository(tmp_path_factory.mktemp("power"))


def power_of(root: Path, baseline: str | None = None, model: str | None = None, **options: float) -> PowerRecord:
    prepared = gate.prepare("jobs", root)
    typed = {"mlflow": "off", "cache": "off", "baseline": baseline, "model": model}
    return suite_power(prepared, resolve(prepared.loaded.suite, typed), command="fairgate power jobs", **options)


@pytest.fixture(scope="session")
def toy_power(power_toy: Toy) -> PowerRecord:
    """The power of `jobs` between tuned and base."""
    return power_of(power_toy.root)


def check_of(record: PowerRecord, item: str) -> CheckPower:
    return next(check for check in record.checks if check.item == item)


def test_every_comparison_has_its_visible_regression_beyond_the_margin(toy_power: PowerRecord) -> None:
    assert [check.item for check in toy_power.checks] == ["no-regression", "gaps[chef]", "gaps[doctor]", "useful"]
    for check in toy_power.checks[:3]:
        for group in check.groups:
            assert check.margin < group.detectable < 2 * check.margin
            assert group.detectable > check.margin + group.standard_error
    assert [group.group for group in check_of(toy_power, "gaps[doctor]").groups] == [
        *("light × male", "light × female", "dark × male", "dark × female"),
    ]
    assert [group.group for group in check_of(toy_power, "no-regression").groups] == [None]


def test_the_alpha_is_what_the_correction_leaves_in_the_worst_case(toy_power: PowerRecord) -> None:
    assert toy_power.comparisons == 4
    assert toy_power.alpha_each == 0.0125
    assert "alpha 0.05 / 4 = 0.013" in " ".join(assumptions(toy_power))
    assert "holm" in " ".join(assumptions(toy_power))


def test_more_comparisons_see_less(toy: Toy, toy_power: PowerRecord) -> None:
    kept = [line for line in SUITE.splitlines() if "id: gaps" not in line and "id: useful" not in line]
    toy.write_suite("\n".join(kept))
    alone = power_of(toy.root)
    assert alone.comparisons == 1
    assert alone.checks[0].groups[0].detectable < check_of(toy_power, "no-regression").groups[0].detectable
    assert "one comparison" in " ".join(assumptions(alone))


def test_the_curve_falls_and_passes_the_present_size(toy_power: PowerRecord) -> None:
    check = check_of(toy_power, "gaps[doctor]")
    assert check.sizes[0] == 5
    assert check.sizes[-1] == 32 * 40
    for group in check.groups:
        finite = [x for x in group.curve if math.isfinite(x)]
        assert sorted(finite, reverse=True) == finite
        assert group.curve[check.sizes.index(40)] == pytest.approx(group.detectable)
        assert finite[-1] > check.margin
    assert math.isinf(check.groups[0].curve[0])  # five sets cannot fail whatever happens


def test_a_rare_group_stays_rare_in_a_larger_dataset(tmp_path: Path) -> None:
    from imported_photographs import import_images

    photos = [("north", number) for number in range(300)] + [("south", number) for number in range(100)]
    labels = [f"{region}/{number}.jpg,{'Female' if number % 2 else 'Male'},{region}" for region, number in photos]
    (tmp_path / "labels.csv").write_text("\n".join(["file,gender,region", *labels]), encoding="utf-8")
    groups = {"gender": ["Male", "Female"], "region": ["north", "south"]}
    import_images(tmp_path / "labels.csv", None, "people", attributes=groups, subject="p", root=tmp_path / "datasets")
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        right = rng.random(len(photos)) < 0.8
        rows = [
            f"{region}/{number}.jpg,{1.0 if (number % 2 == 0) == bool(ok) else -1.0},0.0"
            for (region, number), ok in zip(photos, right, strict=True)
        ]
        header = "file,a photo of a man,a photo of a woman"
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *rows]), encoding="utf-8")
    (tmp_path / "fairness_suites").mkdir()
    (tmp_path / "fairness_suites" / "jobs.yaml").write_text(
        "schema: 1\nsuite: jobs\ndataset: people\nprobes:\n  gender:\n    kind: zero_shot_classification\n"
        '    template: "a photo of a {label}"\n    labels: [man, woman]\n    truth: gender\n'
        "    words: {Male: man, Female: woman}\nchecks:\n"
        "  - {id: gap, probe: gender, metric: accuracy, over: region, no_worse_than: baseline, margin: 0.05}\n",
        encoding="utf-8",
    )
    record = power_of(tmp_path, baseline="model:scores:one.csv?values=logit", model="scores:two.csv?values=logit")
    (check,) = record.checks
    north, south = check.groups
    assert (check.unit, check.n_sets, north.n_sets, south.n_sets) == ("images", 400, 300, 100)
    assert north.detectable < south.detectable
    for group in (north, south):
        assert group.curve[check.sizes.index(400)] == pytest.approx(group.detectable)
    assert "images" in printed(record)


def test_the_wish_is_twice_the_margin_or_what_is_wished(power_toy: Toy, toy_power: PowerRecord) -> None:
    check = check_of(toy_power, "gaps[doctor]")
    assert check.wanted == 0.08
    assert all(group.sets_needed < 40 for group in check.groups)
    finer = check_of(power_of(power_toy.root, wanted=0.042), "gaps[doctor]")
    assert finer.wanted == 0.042
    assert all(group.sets_needed > 100 for group in finer.groups)
    within = check_of(power_of(power_toy.root, wanted=0.04), "gaps[doctor]")
    assert {group.sets_needed for group in within.groups} == {None}


def test_a_margin_of_nothing_wishes_for_two_hundredths(toy: Toy) -> None:
    toy.write_suite(SUITE.replace("margin: 0.03", "margin: 0"))
    assert check_of(power_of(toy.root), "no-regression").wanted == 0.02


def test_better_odds_take_a_larger_regression(power_toy: Toy, toy_power: PowerRecord) -> None:
    surer = power_of(power_toy.root, odds=0.95)
    for now, then in zip(toy_power.checks[:3], surer.checks[:3], strict=True):
        assert all(a.detectable < b.detectable for a, b in zip(now.groups, then.groups, strict=True))


def test_a_visible_regression_fails_the_gate_and_one_at_the_margin_does_not(toy: Toy) -> None:
    group = check_of(power_of(toy.root), "gaps[doctor]").groups[3]
    outcomes = {}
    for name, loss in (("seen", 1.5 * group.detectable), ("at the margin", 0.04)):
        lines = (toy.root / "tuned.csv").read_text(encoding="utf-8").splitlines()
        header, *rows = [line.split(",") for line in lines]
        doctor, nurse = header.index("a photo of a doctor"), header.index("a photo of a nurse")
        for row in rows:
            if row[0].startswith("doctor") and row[1] == "dark-female":
                p = 1 / (1 + math.exp(float(row[nurse]) - float(row[doctor]))) - loss * 4 / 3
                row[doctor] = str(float(row[nurse]) + math.log(p / (1 - p)))
        (toy.root / "worse.csv").write_text("\n".join(map(",".join, [header, *rows])), encoding="utf-8")
        prepared = gate.prepare("jobs", toy.root)
        typed = {"model": "scores:worse.csv?values=logit", "mlflow": "off", "cache": "off"}
        run = gate.evaluate(prepared, resolve(prepared.loaded.suite, typed), command="")
        outcomes[name] = next(check for check in run.record.checks if check.item == "gaps[doctor]").verdict
    assert outcomes["seen"] == "fail"
    assert outcomes["at the margin"] != "fail"


def test_what_does_not_vary_has_no_power_and_says_why(toy_power: PowerRecord) -> None:
    check = check_of(toy_power, "useful")
    assert check.groups == []
    assert check.hardest is None
    assert check.unavailable.startswith(
        "the differences do not vary from set to set; compare two different checkpoints"
    )


def test_max_skew_is_looked_at_through_its_draws(toy: Toy) -> None:
    what = "id: skew-change, probe: search, metric: max_skew_at_k, k: 60, over: gender"
    toy.write_suite(SUITE + f"  - {{{what}, no_worse_than: baseline, margin: 0.1}}\n")
    (group,) = check_of(power_of(toy.root), "skew-change").groups
    assert group.detectable > 0.1 + group.standard_error
    assert group.standard_error > 0.01


@pytest.mark.parametrize("options", [{"wanted": 0.0}, {"wanted": math.inf}, {"odds": 0.4}, {"odds": 1.0}])
def test_a_senseless_wish_is_refused(power_toy: Toy, options: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        power_of(power_toy.root, **options)


def test_power_needs_two_runs_and_a_comparison(toy: Toy) -> None:
    with pytest.raises(BaselineError, match="only one was named"):
        power_of(toy.root, baseline="none")
    with pytest.raises(BaselineError, match="it does not differ from itself"):
        power_of(toy.root, model="scores:base.csv?values=logit")
    kept = [line for line in SUITE.splitlines() if "no_worse_than" not in line]
    toy.write_suite("\n".join(kept))
    with pytest.raises(SuiteError, match="compares nothing"):
        power_of(toy.root)


def printed(record: PowerRecord) -> str:
    console = Console(width=140, file=io.StringIO(), color_system=None)
    console.print(power_table(record))
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join([file.getvalue(), *power_lines(record)])


def test_the_table_is_whole_in_80_columns(toy_power: PowerRecord) -> None:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(power_table(toy_power, 80))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    words = text.split()
    for check in toy_power.checks:
        if (group := check.hardest) is not None:
            assert detectable_words(group).split()[0] in words
            assert needed_words(check, group).split()[0] in words
            assert sparkline(group.curve, check.margin) in words


def test_the_table_names_checks_hardest_groups_and_assumptions(toy_power: PowerRecord) -> None:
    text = printed(toy_power)
    hardest = check_of(toy_power, "gaps[doctor]").hardest
    assert f"gaps[doctor]   {hardest.group}" in text
    assert hardest.detectable == max(g.detectable for g in check_of(toy_power, "gaps[doctor]").groups)
    assert "no power for useful" in text
    assert "fails the gate in 80% of runs" in text
    assert "note: drawn squares" in text


def test_the_page_draws_a_curve_for_every_check_and_fetches_nothing(toy_power: PowerRecord) -> None:
    page = power_html(toy_power)
    assert page.count("<polyline") == 3  # one of no-regression, the hardest group of both subjects of gaps
    assert page.count("drawn squares") >= 4
    assert "No power for useful" in page
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert 'style="' not in page


def test_the_record_comes_back_from_its_file_and_draws_the_same(toy_power: PowerRecord) -> None:
    again = PowerRecord.model_validate_json(toy_power.model_dump_json())
    assert again.model_dump_json() == toy_power.model_dump_json()
    assert power_html(again) == power_html(toy_power)
    assert printed(again) == printed(toy_power)


def test_too_few_sets_are_said_to_see_nothing(tmp_path: Path) -> None:
    small = toy_repository(tmp_path, sets=4)
    small.write_suite(SUITE.replace("decision:", "groups: {min_sets: 2}\ndecision:").replace("k: 60", "k: 8"))
    write_scores_table(small.root / "tuned.csv", 4, seed=2)
    record = power_of(small.root)
    assert math.isinf(check_of(record, "gaps[doctor]").groups[0].detectable)
    assert "none: too few" in printed(record)
    assert "none: too few" in power_html(record)


def test_a_sparkline_shows_what_lies_beyond_the_margin() -> None:
    assert sparkline([None, 0.5, 0.3, 0.2], margin=0.1, width=4) == "·█▄▂"
    assert sparkline([math.inf, math.inf], width=2) == "··"
    assert len(sparkline(np.linspace(1, 0.1, 41).tolist())) == 10


def test_the_shipped_schema_is_the_one_that_the_record_defines_and_keeps(toy_power: PowerRecord) -> None:
    assert schema_file("power").read_text(encoding="utf-8") == schema_text("power"), "run `make generate`"
    Draft202012Validator(schema_of("power")).validate(json.loads(toy_power.model_dump_json()))
