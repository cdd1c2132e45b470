"""What a change alters besides the weights is shown right under the verdict, by every output."""

from __future__ import annotations

import pytest
from example_records import example_record, fairness_check, skew_check, team_record, waived
from test_team_records import outputs

from fairgate.records import RunRecord
from fairgate.reports import github_annotations, junit_suite_properties, render_comment, render_html, terminal_summary
from fairgate.reports.formatting import verdict_words

TOKENIZER = "the tokenizer differs from the baseline's: 3 of 30 labels become other tokens"
RELEASE = "the dataset's release differs: occupations/v1 before, v2 now"


@pytest.fixture(scope="module")
def changed() -> RunRecord:
    passing = [fairness_check(None, 0.912), fairness_check("nurse", 0.93, id="bound")]
    return team_record(passing, notices=[TOKENIZER, RELEASE])


def test_a_pass_with_notices_says_so_in_its_verdict(changed: RunRecord) -> None:
    assert changed.ok
    assert verdict_words(changed) == "pass, with 2 changes to review"
    for name in ("terminal", "comment", "summary", "page"):
        assert "occupations: pass, with 2 changes to review" in outputs(changed)[name], name


def test_notices_are_counted_next_to_waivers_and_next_to_a_failure() -> None:
    both = team_record([fairness_check(None, 0.9), waived(skew_check("nurse", 0.78))], notices=[RELEASE])
    assert verdict_words(both) == "pass, with 1 check waived and 1 change to review"
    assert verdict_words(team_record(notices=[RELEASE])) == "fail, with 1 change to review"
    assert verdict_words(example_record([fairness_check(None, 0.9)])) == "pass"


def test_notices_stand_between_the_verdict_and_everything_else(changed: RunRecord) -> None:
    told = outputs(changed)
    order = ("pass, with 2 changes", TOKENIZER, RELEASE, "ate definition changed", "all 720 sets scored")
    for name in ("terminal", "comment", "summary", "page"):
        places = [told[name].index(said) for said in (order if name != "terminal" else (*order[1:], order[0]))]
        assert places == sorted(places), name
    assert "To review in this change" in told["comment"]
    assert "To review in this change" in told["page"]


def test_annotations_warn_of_notices_before_other_warnings(changed: RunRecord) -> None:
    warnings = [line for line in github_annotations(changed) if line.startswith("::warning")]
    assert TOKENIZER in warnings[0]
    assert RELEASE in warnings[1]
    assert "gate definition" in warnings[2]


def test_junit_has_a_property_per_notice(changed: RunRecord) -> None:
    kept = dict(junit_suite_properties(changed))
    assert (kept["fairgate.notice.1"], kept["fairgate.notice.2"]) == (TOKENIZER, RELEASE)


def test_notices_stay_in_the_shortest_comment(changed: RunRecord) -> None:
    many = changed.model_copy(update={"notices": [TOKENIZER, RELEASE, *(f"change {i}" for i in range(300))]})
    for limit in (2_000, 6_000, 60_000):
        text = render_comment(many, None, limit)
        assert len(text) <= limit
        assert "with 302 changes to review" in text
        assert "the tokenizer differs" in text
        assert "more to review, in results.json" in text
    assert "notice: and 282 more to review, in results.json" in terminal_summary(many)
    assert "and 202 more to review, in results.json" in render_html(many, None)


def test_a_run_without_notices_has_no_place_for_them() -> None:
    for name, text in outputs(team_record()).items():
        assert "to review" not in text.lower(), name
