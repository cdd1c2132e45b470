from __future__ import annotations

import json
import math

import pytest
from tracking_records import a_check, a_record

from fairgate.ground.hashing import digest
from fairgate.records import BaselineInfo, DefinitionChange, GateDefinition, GroupResult, RunRecord, Verdict, Waiver
from fairgate.tracking import content


def test_a_number_that_is_absent_or_infinite_is_not_logged() -> None:
    record = a_record(checks=[a_check("skew", "doctor", value=-math.inf, lo=math.nan, hi=1.5, delta=None)])
    logged = content.metrics(record)
    assert logged["skew/doctor/hi"] == 1.5
    assert not {"skew/doctor", "skew/doctor/lo", "skew/doctor/delta"} & set(logged)
    assert all(map(math.isfinite, logged.values()))


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("physician assistant", "physician assistant"),
        ("a@b=c,d|e<f", "a-b-c-d-e-f"),
        ("cleaner/janitor", "cleaner-janitor"),
        ("café", "cafe"),
        ("..", "-"),
        ("医者", "-"),
    ],
)
def test_a_name_keeps_only_what_mlflow_takes(text: str, safe: str) -> None:
    assert content.safe_part(text) == safe


def test_subjects_that_would_share_a_name_are_told_apart() -> None:
    checks = [a_check("skew", subject, value=float(i)) for i, subject in enumerate(["医者", "看護師", "a|b", "a@b"])]
    logged = content.metrics(a_record(checks=checks))
    values = [value for name, value in logged.items() if name.startswith("skew/") and name.count("/") == 1]
    assert sorted(values) == [0.0, 1.0, 2.0, 3.0]


def test_a_check_called_gate_does_not_overwrite_the_totals() -> None:
    logged = content.metrics(a_record(checks=[a_check("gate", "pass", value=0.123)]))
    assert logged["gate/pass"] == 1.0
    assert 0.123 in logged.values()


def test_a_very_long_name_still_fits() -> None:
    logged = content.metrics(a_record(checks=[a_check("skew", "very " * 100 + tail) for tail in ("long", "longer")]))
    assert all(len(name) <= 250 for name in logged)
    assert len([name for name in logged if name.endswith("/lo")]) == 2


def test_params_say_what_every_check_asks_once() -> None:
    checks = [
        a_check("skew", "doctor", bound=0.9, over="race"),
        a_check("skew", "nurse", bound=0.9, over="race"),
        a_check("fair", None, bound=None),
    ]
    params = content.params(a_record(checks=checks))
    assert params["check/skew"] == "max_skew_at_k of neutral_search over race: at_most 0.9"
    assert params["check/fair"] == "max_skew_at_k of neutral_search: at_most"
    assert params["alpha"] == "0.05"


def test_a_check_with_two_bounds_says_both() -> None:
    checks = [a_check("skew", "doctor", bound=0.9), a_check("skew", "nurse", bound=0.8)]
    assert content.params(a_record(checks=checks))["check/skew"].endswith(
        "at_most 0.9; " + "max_skew_at_k of " + "neutral_search: at_most 0.8"
    )


def test_a_run_outside_git_is_named_so() -> None:
    assert content.run_name(a_record(git_commit=None)) == "pass nogit (occupations)"
    assert "fairgate.git.commit" not in content.tags(a_record(git_commit=None))


def test_a_run_is_named_by_verdict_commit_and_branch_and_a_pull_request_by_its_number() -> None:
    assert content.run_name(a_record(git_branch="main")) == "pass 0123456 main (occupations)"
    record = a_record(git_branch="main\x1b[31m", pull_request=12)
    assert content.run_name(record).startswith("pass 0123456 #12 main")
    assert "\x1b" not in content.run_name(record)


def test_the_table_of_runs_begins_with_the_worst_finding_and_names_the_checkpoint() -> None:
    groups = [
        GroupResult(group="woman", attribute="gender", value=0.4, delta=-0.2, verdict="fail", n_images=9, n_sets=9)
    ]
    thin, fell = a_check("thin", None, verdict="inconclusive"), a_check("fell", None, verdict="fail")
    checks = [thin, fell, a_check("gap", "doctor", verdict="fail", groups=groups)]
    record = a_record(checks=checks, verdict="fail", git_branch="main")
    assert content.run_name(record) == "fail woman, doctor: gap, 0123456 main (occupations)"
    assert content.tags(record)["mlflow.source.name"] == record.model.uri


def test_of_several_failing_groups_the_run_is_named_after_the_worst() -> None:
    groups = [
        GroupResult(group=group, attribute=attribute, value=0.4, delta=delta, verdict="fail", n_images=9, n_sets=9)
        for group, attribute, delta in [("female", "gender", -0.087), ("dark", "skin_tone", -0.157)]
    ]
    check = a_check("no-group-loses", None, verdict="fail", rule="no_worse_than", better="higher", groups=groups)
    record = a_record(checks=[check], verdict="fail")
    assert content.run_name(record).startswith("fail dark: no-group-loses,")
    assert content.tags(record)["fairgate.failing"] == "no-group-loses fail: dark, female"


def test_a_closed_gate_is_a_failed_run_and_its_checks_are_named_with_their_groups() -> None:
    groups = [
        GroupResult(group="woman", attribute="gender", value=0.4, delta=-0.2, verdict="fail", n_images=9, n_sets=9),
        GroupResult(group="man", attribute="gender", value=0.6, delta=None, verdict="pass", n_images=9, n_sets=9),
    ]
    waiver = Waiver(until="2027-01-01", reason="r", expired=False)
    checks = [
        a_check("gap", "doctor", verdict="fail", groups=groups),
        a_check("skew", "nurse", verdict="fail", waiver=waiver),
        a_check("thin", None, verdict="inconclusive"),
    ]
    record = a_record(checks=checks, verdict="fail")
    assert content.status(record) == "FAILED"
    assert content.tags(record)["fairgate.failing"] == "gap[doctor] fail: woman; thin inconclusive"
    logged = content.metrics(record)
    assert logged["gap/doctor/group/woman"] == 0.4
    assert logged["gap/doctor/group/woman/delta"] == -0.2
    assert "gap/doctor/group/man/delta" not in logged


@pytest.mark.parametrize(
    ("verdict", "allowed", "status"),
    [
        ("pass", False, "FINISHED"),
        ("inconclusive", True, "FINISHED"),
        ("inconclusive", False, "FAILED"),
        ("error", True, "FAILED"),
    ],
)
def test_a_run_has_failed_where_its_gate_is_closed(verdict: Verdict, allowed: bool, status: str) -> None:
    record = a_record(verdict=verdict, checks=[a_check("a", None, verdict=verdict)])
    record = record.model_copy(update={"allow_inconclusive": allowed})
    assert content.status(record) == status
    assert ("fairgate.failing" in content.tags(record)) == (status == "FAILED")


@pytest.mark.parametrize(("rule", "status"), [("no_worse_than", "FINISHED"), ("at_least", "FAILED")])
def test_a_first_run_that_only_lacks_a_baseline_is_no_failed_run(rule: str, status: str) -> None:
    check = a_check("a", None, verdict="inconclusive").model_copy(update={"rule": rule, "delta": None})
    record = a_record(verdict="inconclusive", checks=[check]).model_copy(update={"baseline": None})
    assert content.status(record) == status
    assert content.run_name(record).startswith("measured ") == (status == "FINISHED")
    failed = record.model_copy(update={"checks": [check.model_copy(update={"verdict": "fail"})], "verdict": "fail"})
    assert content.status(failed) == "FAILED"


def test_groups_whose_names_would_be_one_or_too_long_are_told_apart() -> None:
    names = [
        "医者",
        "看護師",
        "a very long name of a group, crossed × with one",
        "a very long name of a group, no",
    ]
    groups = [GroupResult(group=name, value=float(at), n_images=1, n_sets=1) for at, name in enumerate(names)]
    logged = content.metrics(a_record(checks=[a_check("c" * 300, "d" * 300, groups=groups)]))
    found = {name: value for name, value in logged.items() if "/group/" in name}
    assert sorted(found.values()) == [0.0, 1.0, 2.0, 3.0]
    assert max(map(len, found)) <= 250 - len("/delta")


def test_a_record_and_its_reading_from_a_file_share_one_key() -> None:
    record = a_record(checks=[a_check("skew", "doctor", value=-math.inf)])
    again = RunRecord.model_validate_json(record.model_dump_json())
    assert content.run_key(again) == content.run_key(record)
    assert content.run_key(a_record(seconds=9.0)) != content.run_key(a_record(seconds=8.0))


def test_a_time_that_is_not_iso_is_no_time() -> None:
    assert content.started_ms(a_record(created_at="yesterday")) == 0
    assert content.started_ms(a_record(created_at="1970-01-01T00:00:01+00:00")) == 1000


def test_tags_tell_of_branch_merge_base_anchor_definition_and_waivers() -> None:
    waived = a_check("skew", "doctor", verdict="fail", waiver=Waiver(until="2027-01-01", reason="r", expired=False))
    record = a_record(checks=[waived], git_branch="topic", git_height=12, pull_request=3).model_copy(
        update={
            "baseline": BaselineInfo(source="git:main", uri="hf:m", fingerprint="b" * 64, commit="c" * 40),
            "anchor": BaselineInfo(source="git:v1", uri="hf:a", fingerprint="a" * 64),
            "definition": GateDefinition(
                source="git:main",
                commit="c" * 40,
                suite_digest="d" * 64,
                changes=[DefinitionChange(what="checks.skew.at_most", before="0.8", now="0.9")],
            ),
            "warnings": ["torch 2.6 here, 2.5 there"],
        }
    )
    tags = content.tags(record)
    assert tags["fairgate.git.branch"] == "topic"
    assert tags["fairgate.git.merge_base"] == "c" * 40
    assert tags["fairgate.pull_request"] == "3"
    assert tags["fairgate.anchor.uri"] == "hf:a"
    assert tags["fairgate.definition.changes"] == "1"
    assert tags["fairgate.waived"] == "1"
    assert tags["fairgate.warnings"] == "torch 2.6 here, 2.5 there"


def test_what_is_not_known_is_no_tag_and_a_very_long_one_is_cut() -> None:
    tags = content.tags(a_record(git_branch="x" * 9000))
    assert len(tags["fairgate.git.branch"]) == content.LONGEST_TAG
    assert not {"fairgate.pull_request", "fairgate.anchor.uri", "fairgate.git.height"} & set(tags)


def test_a_check_against_the_anchor_has_a_name_of_its_own() -> None:
    checks = [
        a_check("slow", None, value=0.5, against="baseline"),
        a_check("slow", None, value=0.6, against="anchor"),
        a_check("slow-anchor", None, value=0.7),
    ]
    record = a_record(checks=checks)
    names = content.stems(record)
    assert len(set(names.values())) == 3
    logged = content.metrics(record)
    assert [logged[name] for name in names.values()] == [0.5, 0.6, 0.7]
    assert names["slow@anchor"] == "slow-anchor/all"


def test_two_runs_that_ask_otherwise_are_told_apart_and_bounds_do_not_matter() -> None:
    def asked(**changes: object) -> str:
        return content.questions(a_record(checks=[a_check("skew", "doctor", **changes)]))["skew"]

    assert asked(bound=0.9) == asked(bound=0.5)
    assert asked(metric="ndkl_at_k") != asked()
    assert asked(k=50) != asked(k=100)
    assert asked(over="race") != asked()
    assert content.questions(a_record(asked="q")) != content.questions(a_record())


def test_a_question_has_the_digest_of_runs_whose_metric_and_k_were_a_single_name() -> None:
    record = a_record(checks=[a_check("skew", "doctor", metric="max_skew_at_k", k=100)])
    question = json.loads(content.questions(record)["skew"])
    assert (question["metric"], question["k"]) == ("max_skew_at_k", 100)
    assert question["asked"] == digest([("max_skew_at_100", "", record.probes["neutral_search"])])
    assert "check/skew" in content.params(record)
    assert content.params(record)["check/skew"].startswith("max_skew_at_100 of neutral_search")
