"""comment.md: verdict first, short enough, and nothing in it acts."""

from __future__ import annotations

import re

import pytest
from example_records import (
    HOSTILE,
    SUBJECTS,
    example_checks,
    example_record,
    fairness_check,
    gap_check,
    photographs_record,
    skew_check,
)
from markdown_it import MarkdownIt

from fairgate.ground.errors import FairgateError
from fairgate.ground.markdown import escape, fenced, web_address
from fairgate.records import GroupResult, RunRecord
from fairgate.reports import job_summary, render_comment

OWN_TAGS = {"<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>"}


def _tokens(text: str) -> list[str]:
    """Types of all tokens, and of their children, that the Markdown becomes."""
    parsed = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough").parse(text)
    return [child.type for token in parsed for child in (token, *(token.children or []))]


def test_the_comment_opens_with_its_marker_and_then_the_verdict(record: RunRecord) -> None:
    lines = render_comment(record).splitlines()
    assert lines[0] == "<!-- fairgate:occupations -->"
    assert lines[1] == "## ✗ fairgate occupations: fail, and 1 check could not be computed"
    assert lines[3].startswith("- ✗ doctor"), "and then the findings"
    assert any("3 failed, 1 could not be computed, 1 inconclusive, 15 passed" in line.lower() for line in lines)


def test_the_job_summary_is_the_comment_without_its_marker(record: RunRecord) -> None:
    assert render_comment(record).split("\n", 1)[1] == job_summary(record)


def test_the_failure_is_said_in_plain_words_before_any_table(record: RunRecord) -> None:
    text = render_comment(record)
    said = escape(
        "doctor (hard_labels): dark × female 0.035 behind its set-mates before and 0.345 behind now; margin 0.040"
    )
    assert 0 < text.index(said) < text.index("| check |")


def test_single_images_are_counted_in_one_column() -> None:
    text = render_comment(photographs_record())
    assert "adj. p | images |" in text
    assert "sets" not in text


def test_no_face_and_no_single_set_is_in_the_comment(record: RunRecord) -> None:
    text = render_comment(record)
    assert "data:" not in text
    assert "<img" not in text
    assert "doctor-0000" not in text


def test_a_marker_cannot_be_closed_by_the_name_of_a_suite() -> None:
    first = render_comment(example_record(suite="a --> <b> -- c")).splitlines()[0]
    assert first == "<!-- fairgate:a-b-c -->"


def test_hostile_text_becomes_no_html_no_link_no_image_no_code_and_no_mention(record: RunRecord) -> None:
    text = render_comment(record)
    assert HOSTILE.split()[0] not in text
    assert set(re.findall(r"</?[a-z]+[^>]*>", text)) <= OWN_TAGS
    assert not {"link_open", "image", "code_inline"} & set(_tokens(text))
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert not re.search(r"@\w", prose)


@pytest.mark.parametrize(
    "text",
    ["<b>x</b>", "`x`", "[a](http://x.org)", "![a](b)", "*x* _y_", "~~x~~", "a|b", "# x", "&lt;", "\\", "$x$"],
)
def test_escaped_text_reads_as_it_was_written(text: str) -> None:
    parsed = MarkdownIt("commonmark", {"html": True}).enable("strikethrough").parse(f"x {escape(text)}")
    inline = next(token for token in parsed if token.type == "inline")
    assert {child.type for child in inline.children or []} <= {"text", "text_special"}
    read = "".join(child.content for child in inline.children or [])
    assert read.replace("\u200b", "") == f"x {text}"


@pytest.mark.parametrize("text", ["@someone", "#12", "GH-12", "https://x.org", "www.x.org", "me@x.org", "o/r#1"])
def test_nothing_that_github_links_by_itself_stays_in_one_piece(text: str) -> None:
    assert "\u200b" in escape(text)


def test_a_pipe_in_a_name_does_not_add_a_cell() -> None:
    text = render_comment(example_record([fairness_check("a|b", 0.1)]))
    row = next(line for line in text.splitlines() if line.startswith("| ✗"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 9


def test_a_code_block_outlives_the_backticks_in_it() -> None:
    assert fenced("a ``` b").startswith("````sh\n")
    assert fenced("pytest").startswith("```sh\n")


@pytest.mark.parametrize("url", ["javascript:alert(1)", "x.html", "https://x\n.org", None])
def test_only_web_addresses_become_links(url: str | None, record: RunRecord) -> None:
    assert web_address(url) is None
    assert "[Full report" not in render_comment(record, url)


def test_the_report_is_linked_and_its_address_cannot_leave_the_link(record: RunRecord) -> None:
    assert "[Full report, with pictures](https://x.org/a%29%28b)" in render_comment(record, "https://x.org/a)(b")


@pytest.mark.parametrize("limit", [2_000, 3_000, 6_000, 20_000, 60_000])
def test_detail_is_shed_until_the_comment_fits_and_the_verdict_stays(limit: int) -> None:
    checks = [gap_check(SUBJECTS[i % 6], "fail").model_copy(update={"id": f"check-{i:04d}"}) for i in range(300)]
    text = render_comment(example_record([*checks, *example_checks()]), "https://x.org", limit)
    assert len(text) <= limit
    assert "303 failed" in text
    assert "Demonstration data" in text


def test_the_shortest_comment_fits_even_when_every_name_is_long_and_hostile() -> None:
    awful = "<&|@`>" * 400
    record = example_record([fairness_check(awful, 0.2, id=awful, reason=awful)], suite=awful, command=awful)
    assert len(render_comment(record, awful, 2_000)) <= 2_000


def test_a_limit_that_cannot_hold_a_verdict_is_refused(record: RunRecord) -> None:
    with pytest.raises(FairgateError, match="allow at least 2,000"):
        render_comment(record, max_chars=500)


def test_a_passing_run_folds_its_checks_and_one_without_baseline_says_so() -> None:
    passing = [check for check in example_checks() if check.verdict == "pass"]
    dataset = example_record().dataset.model_copy(update={"notice": None})
    text = render_comment(example_record(passing, baseline=None, dataset=dataset))
    assert "## ✓ fairgate occupations: pass" in text
    assert "<summary>15 checks passed</summary>" in text
    assert "- baseline: none" in text
    assert "\n> " not in text


def test_a_groups_interval_is_told_from_that_of_the_worst_of_all_groups() -> None:
    groups = [
        GroupResult(group=name, attribute="gender", value=value, lo=value - 0.1, hi=value + 0.1, n_images=80, n_sets=80)
        for name, value in (("woman", 1.1), ("man", 0.2))
    ]
    apart = skew_check("nurse", 1.1).model_copy(update={"groups": groups, "worst_group": "woman", "lo": 0.7, "hi": 1.3})
    words = "A group's interval is of that group alone; the check's is of the worst of all groups"
    assert words in render_comment(example_record([apart]))
    alike = apart.model_copy(update={"lo": groups[0].lo, "hi": groups[0].hi})
    assert words not in render_comment(example_record([alike]))
