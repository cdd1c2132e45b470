"""Anchor, waivers, a changed gate, a baseline scored again and warnings: told by every output in the same words."""

from __future__ import annotations

import io
import re

import pytest
from example_records import (
    COMMIT,
    example_record,
    fairness_check,
    gap_check,
    skew_check,
    team_record,
    waived,
)
from rich.console import Console

from fairgate.records import DefinitionChange, GateDefinition, OtherDefinition, RunRecord, overall
from fairgate.reports import (
    github_annotations,
    job_summary,
    junit_properties,
    junit_suite_properties,
    render_comment,
    render_html,
    terminal_summary,
    terminal_table,
)
from fairgate.reports.formatting import provenance, tally, totals, verdict_words, why_absent
from fairgate.reports.run_remarks import decider_words, definition_words, excuse_words, remarks
from fairgate.reports.sentences import sentence

CHANGED = "ate definition changed: 3 changes since the merge base 89abcdef89 (git:origin/main)"
HELD = "waived until 2027-03-01: retraining in #412"
EXPIRED = "NOT waived: the waiver ended with 2026-01-31 (its reason: until the new release)"
DECIDED = "decided by the merge base's bound 0.900; this change says 0.850, by which it would pass"
AGAIN = "the baseline was scored again in this run: the dataset's release differs: occupations/v1 before, v2 now"
ELSEWHERE = "the baseline was scored with device cuda, this run with device cpu"


@pytest.fixture(scope="module")
def team() -> RunRecord:
    return team_record()


def printed(record: RunRecord) -> str:
    console = Console(width=100, file=io.StringIO())
    with console.capture() as captured:
        console.print(terminal_table(record))
    return captured.get()


def outputs(record: RunRecord) -> dict[str, str]:
    """Every output as a reader reads it: tags, escapes and invisible breaks gone."""
    page = re.sub(r"<[^>]+>", "", re.sub(r"<style>.*?</style>", "", render_html(record, None), flags=re.DOTALL))
    plain = {"&#39;": "'", "&#34;": '"', "&lt;": "<", "&gt;": ">", "&amp;": "&"}
    for entity, character in plain.items():
        page = page.replace(entity, character)
    return {
        "terminal": "\n".join(terminal_summary(record)),
        "comment": re.sub(r"\\(?=[^a-z0-9])", "", render_comment(record)).replace("\u200b", ""),
        "summary": re.sub(r"\\(?=[^a-z0-9])", "", job_summary(record)).replace("\u200b", ""),
        "annotations": "\n".join(github_annotations(record)).replace("%25", "%"),
        "page": re.sub(r"\s+", " ", page),
    }


@pytest.mark.parametrize("said", [CHANGED, HELD, EXPIRED, DECIDED, AGAIN, ELSEWHERE])
def test_every_output_says_the_same_of_what_surrounds_a_verdict(team: RunRecord, said: str) -> None:
    assert [name for name, text in outputs(team).items() if said not in text] == []


def test_a_changed_gate_is_shown_right_under_the_verdict_with_before_and_now(team: RunRecord) -> None:
    told = outputs(team)
    order = ("occupations: fail", CHANGED, "checks.bound.at_least", "all 720 sets scored")
    for name in ("terminal", "comment", "summary", "page"):
        places = [told[name].index(said) for said in (order if name != "terminal" else (*order[1:], order[0]))]
        assert places == sorted(places), name
    assert "checks.bound.at_least: 0.9 → 0.85" in told["terminal"]
    assert "| checks.bound.at_least | 0.9 | 0.85 |" in told["comment"]
    assert "| waivers.skew[nurse] | not there | until: 2027-03-01 |" in told["comment"]
    assert "checks.bound.at_least0.90.85" in told["page"]


def test_a_waived_check_is_counted_apart_and_never_among_the_passed(team: RunRecord) -> None:
    assert tally(team) == {"fail": 4, "error": 0, "inconclusive": 0, "waived": 1, "watched": 0, "pass": 11}
    assert totals(team) == "4 failed, 1 waived, 11 passed"
    comment = outputs(team)["comment"]
    passed = comment[comment.index("11 checks passed") :]
    assert "skew[nurse]" not in passed
    assert "Waived or watched: 1 check" in comment
    page = render_html(team, None)
    named = re.compile(r'<details class="row (\w+) .*?class="name">(\S+) <span class="subject">(\w+)<', re.DOTALL)
    rows = named.findall(page)
    assert [row for row in rows if row[0] == "waived"] == [("waived", "skew", "nurse")]
    assert ("pass", "skew", "nurse") not in rows
    assert ("pass", "skew", "chef") in rows
    assert "These decide nothing:" in page


def test_a_waived_check_stands_below_what_closes_the_gate_and_above_what_passed(team: RunRecord) -> None:
    table = printed(team)
    assert table.index("skew[pilot]") < table.index("skew[nurse]") < table.index("✓ pass")
    assert max(map(len, table.splitlines())) <= 100
    assert "…" not in table
    nurse = table[table.index("skew[nurse]") : table.index("✓ pass")]
    assert "✗ fail" in nurse
    assert "waived" in nurse
    assert "expired" in table[table.index("skew[pilot]") : table.index("skew[nurse]")]


def test_a_pass_that_rests_on_waivers_says_so() -> None:
    record = team_record([fairness_check(None, 0.9), waived(skew_check("nurse", 0.78))], definition=None)
    assert record.ok
    assert verdict_words(record) == "pass, with 1 check waived"
    for name in ("terminal", "comment", "page"):
        assert "occupations: pass, with 1 check waived" in outputs(record)[name]
    assert "Nothing failed but what is waived" in outputs(record)["page"]
    assert not [line for line in github_annotations(record) if line.startswith("::error")]
    allowed = [gap_check("pilot", "inconclusive"), waived(skew_check("nurse", 0.78))]
    said = verdict_words(example_record(allowed, allow_inconclusive=True))
    assert said == "inconclusive (allowed here), with 1 check waived"


def test_a_run_in_which_everything_is_waived_is_no_pass() -> None:
    record = example_record([waived(skew_check("nurse", 0.78))])
    assert record.verdict == overall([]) == "error"
    assert "Every check is waived or watched, so that nothing was held to its bound." in outputs(record)["page"]
    assert github_annotations(record)[0].startswith("::error")


def test_what_could_not_be_computed_is_not_waived() -> None:
    broken = waived(skew_check("nurse", 0.78).model_copy(update={"verdict": "error"}))
    assert excuse_words(broken).startswith(
        "not waived, since it could not be computed (a waiver is valid until 2027-03-01"
    )
    assert "not waived" in printed(example_record([broken]))
    assert excuse_words(waived(fairness_check(None, 0.9))) == ""


def test_many_waived_checks_are_cut_short_in_the_terminal() -> None:
    many = [waived(skew_check(f"s{i}", 0.78)) for i in range(9)]
    lines = terminal_summary(example_record([fairness_check(None, 0.9), *many]))
    assert "  and 4 more, waived or watched, in the table" in lines
    late = [waived(skew_check(f"s{i}", 0.78), until="2026-01-31") for i in range(9)]
    assert remarks(example_record(late))[-1].text == "and 4 more that expired"


def test_lines_against_the_anchor_never_speak_of_the_baseline(team: RunRecord) -> None:
    drifted = next(check for check in team.checks if check.against == "anchor")
    assert drifted.item == "no-intersectional-regression@anchor[doctor]"
    assert sentence(drifted, team).endswith(
        "0.035 behind its set-mates in the anchor and 0.345 behind now; margin 0.040"
    )
    accuracy = drifted.model_copy(update={"metric": "accuracy"})
    assert sentence(accuracy, team).endswith("fell by 0.310 (−0.035 to −0.345) against the anchor; margin 0.040")
    lost = accuracy.model_copy(update={"delta": None, "groups": [], "worst_group": None, "baseline": None})
    assert sentence(lost, team).endswith("was not compared: the anchor does not hold it")
    assert sentence(lost, example_record()).endswith("was not compared: there is no anchor")
    assert why_absent(example_record(), lost, "delta") == "no anchor"
    assert why_absent(team, lost, "p_adjusted") == "not tested against the anchor"
    assert "(anchor)" in printed(team)
    assert "| −0.035 (anchor) |" in outputs(team)["comment"]
    page = render_html(team, None)
    assert "no-intersectional-regression@anchor" in page
    assert "<dt>Anchor</dt><dd>−0.035" in page
    assert "Where attributes cross: change against the anchor" in page
    assert ("fairgate.against", "anchor") in junit_properties(drifted, team)


def test_baseline_and_anchor_say_where_they_came_from(team: RunRecord) -> None:
    assert team.baseline is not None
    whence = "git:origin/main, merge base 89abcdef89, recorded 2026-02-20 09:00 UTC, scored again in this run"
    assert provenance(team.baseline) == whence
    for name in ("terminal", "comment", "page"):
        told = outputs(team)[name]
        assert whence in told
        assert "file:releases/1.0" in told


def test_a_baseline_that_is_named_by_its_model_is_named_once() -> None:
    info = example_record().baseline
    assert info is not None
    assert provenance(info.model_copy(update={"source": f"model:{info.uri}"})) == ""
    assert (
        "- baseline: open_clip:tiny@base.safetensors (ba5eba5eba5e)\n"
        in outputs(example_record(baseline=info.model_copy(update={"source": f"model:{info.uri}"})))["comment"]
    )


def test_a_checkpoint_that_is_its_own_baseline_is_told_as_such(team: RunRecord) -> None:
    assert team.baseline is not None
    same = team.baseline.model_copy(update={"unchanged": True, "rescored": None})
    for text in outputs(team_record(baseline=same)).values():
        assert "the candidate is the baseline's checkpoint: the model did not change" in text
    assert provenance(same).endswith("the candidate's own checkpoint")


def test_warnings_come_before_notes_and_a_baseline_says_why_it_became_one(team: RunRecord) -> None:
    said = remarks(team)
    assert [one.level for one in said] == ["warning", "warning", "note", "note"]
    assert said[-1].text == "this record became a baseline: release 1.1"
    assert remarks(example_record()) == []


def test_a_suite_that_the_merge_base_does_not_have_is_new() -> None:
    new = GateDefinition(source="git:main", commit=COMMIT, suite_digest=None)
    said = definition_words(team_record(definition=new))
    assert said is not None
    assert said.startswith("gate definition is new: the merge base 89abcdef89 (git:main) has no such suite")
    assert definition_words(team_record(definition=new.model_copy(update={"suite_digest": "6b" * 32}))) is None
    assert definition_words(example_record()) is None


def test_a_suite_that_the_merge_base_has_and_nobody_can_read_is_not_called_absent() -> None:
    broken = DefinitionChange(what="the suite", before="not readable: schema", now="readable")
    newer = OtherDefinition(decider="base tip", ref="main", commit=COMMIT, suite_digest="6b" * 32)
    new = GateDefinition(source="git:main", commit=COMMIT, suite_digest=None, changes=[broken], others=[newer])
    said = definition_words(team_record(definition=new))
    assert said is not None
    assert said.endswith("has a suite that cannot be read, so that this change and a newer base say what is checked")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        (
            {"decided_by": "this change", "other_bound": 0.8, "other_verdict": "fail"},
            "decided by this change's bound 0.850; the merge base says 0.800",
        ),
        (
            {"decided_by": "merge base", "other_bound": 0.85, "other_verdict": "inconclusive"},
            "decided by the merge base's definition; this change defines it otherwise, "
            "by which it would be inconclusive",
        ),
        ({"decided_by": "merge base"}, "decided by the merge base's definition; this change has no such check"),
        ({"decided_by": "this change"}, "decided by this change's definition; the merge base has no such check"),
        (
            {"decided_by": "merge base", "rule": "no_worse_than", "other_bound": 0.9, "other_verdict": "fail"},
            "decided by the merge base's margin 0.850; this change says 0.900",
        ),
    ],
)
def test_who_decided_is_said_in_words(changes: dict[str, object], said: str) -> None:
    assert decider_words(fairness_check(None, 0.2).model_copy(update=changes)) == said


def test_junit_tells_of_waivers_and_deciders_per_check_and_of_the_rest_per_suite(team: RunRecord) -> None:
    by_item = {check.item: dict(junit_properties(check, team)) for check in team.checks}
    assert by_item["skew[nurse]"]["fairgate.waived"] == "true"
    assert by_item["skew[nurse]"]["fairgate.waiver_until"] == "2027-03-01"
    assert by_item["skew[nurse]"]["fairgate.verdict"] == "fail"
    assert by_item["skew[pilot]"]["fairgate.waived"] == "false"
    assert by_item["skew[pilot]"]["fairgate.waiver_expired"] == "true"
    assert by_item["bound[doctor]"]["fairgate.decided_by"] == "merge base"
    assert by_item["bound[doctor]"]["fairgate.other_bound"] == "0.85"
    assert "fairgate.waived" not in by_item["fairness"]
    whole = dict(junit_suite_properties(team))
    assert whole["fairgate.totals"] == "4 failed, 1 waived, 11 passed"
    assert CHANGED in whole["fairgate.definition"]
    assert whole["fairgate.warning.1"].endswith(EXPIRED)
    assert "fairgate.definition" not in dict(junit_suite_properties(example_record()))


def test_a_registered_model_is_named_with_its_version(team: RunRecord) -> None:
    model = team.model.model_copy(update={"registered": "portraits/3"})
    told = outputs(team_record(model=model))
    assert "registered as portraits/3" in told["comment"]
    assert "registered as portraits/3" in told["page"]
    assert ("fairgate.registered", "portraits/3") in junit_suite_properties(team_record(model=model))


def test_annotations_warn_of_a_changed_gate_and_of_waived_checks(team: RunRecord) -> None:
    levels = [line.split(" ")[0] for line in github_annotations(team)]
    assert levels == ["::error"] * 4 + ["::warning"] * 4 + ["::notice"] * 2


def test_a_comment_with_a_thousand_changes_of_the_gate_fits_and_counts_what_it_leaves_out() -> None:
    changes = [DefinitionChange(what=f"checks.c{i:04d}", before="0" * 300, now="<" * 300) for i in range(1000)]
    definition = GateDefinition(source="git:main", commit=COMMIT, suite_digest="6b" * 32, changes=changes)
    record = team_record(definition=definition)
    for limit in (2_000, 6_000, 20_000, 60_000):
        text = render_comment(record, "https://x.org", limit)
        assert len(text) <= limit
        assert "1,000 changes since the merge base" in text
        assert "4 failed, 1 waived" in text.lower()
    assert "results.json has " in render_comment(record)
    page = render_html(record, None)
    assert len(page.encode()) < 5_000_000
    assert "and 800 more in results.json" in page
    assert "  and 992 more in results.json" in terminal_summary(record)
