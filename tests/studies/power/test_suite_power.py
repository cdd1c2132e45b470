"""`fairgate power`: what the checks of a suite let pass, which loss they fail, and what they need."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import situations
from jsonschema import Draft202012Validator
from toy_repository import SUITE, Toy, toy_repository

from fairgate import gate
from fairgate.ground.errors import SuiteError
from fairgate.probes import ProbeScores
from fairgate.records import CheckPower, CheckResult, PowerRecord
from fairgate.records.schemas import schema_file, schema_of, schema_text
from fairgate.reports import power_lines
from fairgate.studies.power import decidable, suite_power
from fairgate.suites import resolve

LIKE = ["scores:base.csv?values=logit", "scores:tuned.csv?values=logit"]


@pytest.fixture(autouse=True, scope="session")
def _few_runs() -> Iterator[None]:
    """A fifth of the simulated runs, and few losses: what is asserted here is far from chance."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decidable, "RUNS", 40)
        patch.setattr(decidable, "LOSS_RUNS", 15)
        patch.setattr(decidable, "LOSSES", (0.05, 0.1, 0.2, 0.4))
        yield


def power_of(root: Path, like: Sequence[str] = (), *, losses: bool = False) -> PowerRecord:
    """Without `losses`, none is looked for, which takes most of the time."""
    prepared = gate.prepare("jobs", root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"})
    with pytest.MonkeyPatch.context() as patch:
        if not losses:
            patch.setattr(decidable, "LOSSES", ())
        return suite_power(prepared, settings, command="fairgate power jobs", like=like)


@pytest.fixture(scope="session")
def power_toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A repository that no test writes to."""
    return toy_repository(tmp_path_factory.mktemp("power"))


@pytest.fixture(scope="session")
def toy_power(power_toy: Toy) -> PowerRecord:
    return power_of(power_toy.root, losses=True)


def check_of(record: PowerRecord, id_: str) -> CheckPower:
    return next(check for check in record.checks if check.id == id_)


def lost(toy: Toy, group: str, loss: float) -> str:
    """The URI of the tuned model with so much less P(doctor) for a group."""
    header, *rows = [line.split(",") for line in (toy.root / "tuned.csv").read_text(encoding="utf-8").splitlines()]
    pairs = [(header.index(f"a photo of a {right}"), header.index(f"a photo of a {wrong}")) for right, wrong in
             (("doctor", "nurse"), ("chef", "line cook"))]  # fmt: skip
    for row in rows:
        if row[1].endswith(f"-{group}"):
            right, wrong = pairs[row[0].startswith("chef")]
            p = 1 / (1 + math.exp(float(row[wrong]) - float(row[right]))) - loss
            row[right] = str(float(row[wrong]) + math.log(p / (1 - p)))
    (toy.root / "worse.csv").write_text("\n".join(map(",".join, [header, *rows])), encoding="utf-8")
    return "scores:worse.csv?values=logit"


def test_every_regression_check_has_its_row_and_bounds_have_none(toy_power: PowerRecord) -> None:
    assert [check.id for check in toy_power.checks] == ["no-regression", "gaps", "useful"]
    assert (toy_power.unit, toy_power.units, len(toy_power.changes)) == ("set", 40, 8)
    assert toy_power.together >= 0.97
    assert toy_power.runs == 40
    assert all(check.passes >= toy_power.together for check in toy_power.checks)
    assert not any(line.startswith("warning") for line in power_lines(toy_power))


def test_the_loss_that_is_stated_fails_the_gate_by_name_and_half_of_the_margin_passes(
    toy: Toy, toy_power: PowerRecord
) -> None:
    loss = check_of(toy_power, "gaps").loss
    assert loss is not None
    assert 0.04 < loss <= 0.2
    verdicts = {}
    for size in (loss, 0.02):
        prepared = gate.prepare("jobs", toy.root)
        typed = {"model": lost(toy, "female", size), "mlflow": "off", "cache": "off"}
        record = gate.evaluate(prepared, resolve(prepared.loaded.suite, typed), command="").record
        gaps = [check for check in record.checks if check.id == "gaps"]
        verdicts[size] = {check.verdict for check in gaps}
        named = {group.group for check in gaps for group in check.failing_groups}
        assert all("female" in group for group in named)
    assert "fail" in verdicts[loss]
    assert verdicts[0.02] == {"pass"}


def test_a_check_that_a_harmless_change_cannot_pass_is_a_warning_with_the_sets_it_takes(toy: Toy) -> None:
    toy.write_suite(SUITE.replace("margin: 0.04", "margin: 0.004"))
    record = power_of(toy.root)
    gaps = check_of(record, "gaps")
    assert gaps.passes < 0.5
    assert record.together <= gaps.passes
    assert gaps.needed is not None
    assert gaps.needed > 40
    (warning,) = (line for line in power_lines(record) if line.startswith("warning"))
    assert "'gaps' passes a harmless change only" in warning
    assert f"about {gaps.needed:,} sets of each group" in warning
    assert "`tier: watch`" in warning


@pytest.mark.nightly
def test_so_many_sets_let_a_harmless_change_pass(tmp_path: Path) -> None:
    few = toy_repository(tmp_path / "few", sets=40)
    few.write_suite(SUITE.replace("margin: 0.04", "margin: 0.025"))
    gaps = check_of(power_of(few.root), "gaps")
    assert gaps.needed is not None
    assert gaps.passes < 0.9
    many = toy_repository(tmp_path / "many", sets=gaps.needed)
    many.write_suite(SUITE.replace("margin: 0.04", "margin: 0.025"))
    assert check_of(power_of(many.root), "gaps").passes >= 0.9


def test_a_watched_check_warns_of_nothing_and_stops_nothing(toy: Toy) -> None:
    toy.write_suite(SUITE.replace("margin: 0.04}", "margin: 0.004, tier: watch}"))
    record = power_of(toy.root)
    assert check_of(record, "gaps").tier == "watch"
    assert check_of(record, "gaps").passes < 0.5
    assert record.together >= 0.97
    assert not any(line.startswith("warning") for line in power_lines(record))


def test_checkpoints_that_are_called_harmless_are_among_the_eight_changes(power_toy: Toy) -> None:
    record = power_of(power_toy.root, like=LIKE)
    assert record.changes[:3] == ["the model itself", *LIKE]
    assert len(record.changes) == 8


def test_a_checkpoint_that_harms_a_group_is_left_out_by_name(power_toy: Toy) -> None:
    biased = "scores:biased.csv?values=logit"
    record = power_of(power_toy.root, like=[biased, LIKE[0]])
    assert biased not in record.changes
    assert record.changes[:2] == ["the model itself", LIKE[0]]
    (why,) = record.left_out
    assert why.startswith(f"{biased} is left out, since it is not harmless: it fails ")
    assert "gaps[doctor] (dark × female)" in why
    assert why in power_lines(record)


def test_a_harmless_change_has_to_pass_against_the_anchor_too(toy: Toy) -> None:
    narrow = SUITE.replace("margin: 0.04", "margin: 0.02")
    toy.write_suite(narrow)
    alone = check_of(power_of(toy.root), "gaps").passes
    toy.write_suite(narrow.replace("baseline: model", "anchor: model:scores:base.csv?values=logit\nbaseline: model"))
    record = power_of(toy.root)
    assert [check.id for check in record.checks] == ["no-regression", "gaps", "useful"]
    assert check_of(record, "gaps").passes < alone


def test_a_suite_that_compares_nothing_is_refused(toy: Toy) -> None:
    toy.write_suite("\n".join(line for line in SUITE.splitlines() if "no_worse_than" not in line))
    with pytest.raises(SuiteError, match="compares nothing with a baseline"):
        power_of(toy.root)


def test_a_loss_that_nothing_shows_is_stated_nowhere(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decidable, "LOSSES", (0.001, 0.002))
    assert {check.loss for check in power_of(toy.root, losses=True).checks} == {None}


def test_the_record_comes_back_from_its_file_and_fits_the_shipped_schema(toy_power: PowerRecord) -> None:
    text = toy_power.model_dump_json()
    assert PowerRecord.model_validate_json(text).model_dump_json() == text
    assert schema_file("power").read_text(encoding="utf-8") == schema_text("power"), "run `make generate`"
    Draft202012Validator(schema_of("power")).validate(json.loads(text))


def test_a_loss_takes_so_many_right_answers_of_several_views_and_images_from_their_query() -> None:
    inside, rng = np.arange(20_000) < 10_000, np.random.default_rng(0)
    right = rng.integers(8, 17, inside.size) / 16
    before = ProbeScores(np.full(inside.size, 0.8), rank=np.ones(inside.size, dtype=np.int64), more={"right": right})
    after = decidable.lose(before, inside, 0.06, rng)
    lost = right - after.more["right"]
    assert lost[inside].mean() == pytest.approx(0.06, abs=0.008)
    assert after.rank is not None
    assert (after.rank[inside] > 1).mean() == pytest.approx(0.06, abs=0.008)
    assert not lost[~inside].any()
    assert (after.rank[~inside] == 1).all()
    asked = ProbeScores(np.ones(20), more={"right": np.ones(20), "abstained": np.zeros(20)})
    assert decidable.lose(asked, np.ones(20, dtype=bool), 0.5, rng).more["right"].all()  # answers to questions stay


def test_a_right_label_that_is_lost_becomes_another_one() -> None:
    inside, rng = np.arange(9_000) < 3_000, np.random.default_rng(0)
    truth = np.array(["chef", "doctor", "nurse"] * 3_000, dtype=object)
    before = ProbeScores(np.ones(truth.size), truth.copy(), np.ones(truth.size, dtype=bool), truth=truth)
    after = decidable.lose(before, inside, 0.2, rng)
    assert after.predicted is not None
    assert after.correct is not None
    assert ((after.predicted == truth) == after.correct).all()
    assert after.correct[inside].mean() == pytest.approx(0.8, abs=0.03)
    assert after.correct[~inside].all()
    assert set(after.predicted) == set(truth)
    alike = ProbeScores(np.ones(4), np.array(["a"] * 4), np.ones(4, dtype=bool), truth=np.array(["a"] * 4))
    (said,) = set(decidable.lose(alike, np.ones(4, dtype=bool), 1.0, rng).predicted)  # type: ignore[arg-type]
    assert said == ""


@pytest.mark.parametrize(("misses", "runs", "seen"), [((), 24, True), ((3,), 40, True), ((3, 9), 60, True),
                                                      (range(0, 50, 10), 41, False)])  # fmt: skip
def test_a_loss_that_is_clearly_seen_or_missed_takes_few_runs(
    monkeypatch: pytest.MonkeyPatch, misses: Sequence[int], runs: int, seen: bool
) -> None:
    monkeypatch.setattr(decidable, "LOSS_RUNS", 60)
    taken = []

    class Runs:
        def runs(self, _suite: object, most: int, _loss: object) -> Iterator[list[SimpleNamespace]]:
            for run in range(most):
                taken.append(run)
                yield [SimpleNamespace(id="own", over=None, verdict="inconclusive" if run in misses else "fail")]

    stub: Any = Runs()
    assert decidable._seen(stub, stub, {"own"}, [("gender", "female")], 0.1) == ({"own"} if seen else set())
    assert len(taken) == runs


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("endless", [1, 36, 40])
def test_limits_without_an_end_name_no_margin_and_no_endless_number_of_images(endless: int) -> None:
    def check(lo: float) -> CheckResult:
        group = situations.group("Black", 0.8, 0.8, "inconclusive", images=6).model_copy(update={"delta_lo": lo})
        return situations.compared([group], "inconclusive", bound=0.02)

    runs = [[check(-math.inf if at < endless else -0.3)] for at in range(40)]
    needed = decidable._needed(runs, "by-group")
    assert needed.margin == (0.3 if endless == 1 else None)
    assert needed.units is None or needed.units < 10_000
