"""What chance alone gives stands beside every rank metric in every report; so do ties and missing intervals."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from example_records import example_record, fairness_check, skew_check
from rich.console import Console

from fairgate.records import CheckResult, RunRecord
from fairgate.reports import (
    github_annotations,
    junit_properties,
    read_results,
    render_comment,
    render_html,
    terminal_summary,
    terminal_table,
    write_results,
)
from fairgate.reports.formatting import measured_as, metric_words, no_interval_words, null_words, tie_words
from fairgate.reports.sentences import sentence
from fairgate.tracking.content import metrics


def word_checks() -> list[CheckResult]:
    """Three words of an association, one of them held by a tie and one without an interval."""
    fields = {"id": "c-asc", "subject": None, "probe": "words", "metric": "max_skew_at_k", "k": 50, "over": "skin_tone"}
    made = [
        skew_check("x", value).model_copy(update=fields | {"word": word})
        for word, value in (("nurse", 0.72), ("driver", 0.3), ("line cook", 0.2))
    ]
    tied = {"tie_at_k": True, "tie_lo": 0.1, "tie_hi": 0.4}
    bare = {"lo": None, "hi": None, "interval": "no interval: its share is unseen"}
    return [made[0], made[1].model_copy(update=tied), made[2].model_copy(update=bare)]


@pytest.fixture
def record() -> RunRecord:
    probes = {
        "words": "association:ab",
        "hard_labels": "zero_shot_classification:cd",
        "pair": "implicit_association:ef",
    }
    return example_record([*word_checks(), fairness_check("doctor", 0.9)], probes=probes)


def printed(record: RunRecord) -> str:
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as captured:
        console.print(terminal_table(record))
    return captured.get()


def test_null_words_name_the_median_and_the_bad_side() -> None:
    high = skew_check("nurse", 0.78)
    assert null_words(high) == "a fair ranker has 0.200, 95% under 0.360"
    low = high.model_copy(update={"better": "higher", "null_median": -0.2, "null_p95": -0.5})
    assert null_words(low) == "a fair ranker has −0.200, 95% over −0.500"
    assert null_words(fairness_check("doctor", 0.9)) == ""


def test_every_report_shows_the_fair_ranker_beside_a_rank_metric(record: RunRecord, tmp_path: Path) -> None:
    table = printed(record)
    assert table.count("fair 0.200") == 3
    assert table.count("95% 0.360") == 3
    assert max(map(len, table.splitlines())) <= 100
    assert any("fair, 95%: what a perfectly fair ranker has" in line for line in terminal_summary(record))
    comment = render_comment(record)
    assert comment.count("fair: 0.200, 95% under 0.360") == 3
    page = render_html(record, None)
    assert page.count("median 0.200, 95% under 0.360") == 3
    assert page.count("fair 0.200 · 0.360") == 2, "the rows of checks that passed"
    kept = read_results(write_results(record, tmp_path))
    assert [check.null_p95 for check in kept.checks] == [0.36, 0.36, 0.36, None]
    assert ("fairgate.null_median", "0.2") in junit_properties(record.checks[0], record)
    assert "a fair ranker has 0.200" in github_annotations(record)[0]
    assert metrics(record)["c-asc/nurse/null_median"] == 0.2
    assert metrics(record)["c-asc/nurse/null_p95"] == 0.36


def test_a_report_without_rank_metrics_does_not_speak_of_fair_rankers() -> None:
    record = example_record([fairness_check("doctor", 0.9)])
    assert "fair ranker" not in render_html(record, None)
    assert "fair ranker" not in render_comment(record)
    assert not any("fair ranker" in line for line in terminal_summary(record))


def test_a_word_names_its_check_as_a_subject_does(record: RunRecord) -> None:
    nurse = record.checks[0]
    assert (nurse.item, nurse.about) == ("c-asc[nurse]", "nurse")
    assert sentence(nurse, record).startswith("nurse (words): MaxSkew@50 is 0.720 [0.600, 0.860] for light;")
    page = render_html(record, None)
    assert "3 words: median 0.300" in page
    assert '<span class="subject">line cook</span>' in page
    assert ("fairgate.word", "nurse") in junit_properties(nurse, example_record())


def test_ties_and_missing_intervals_are_told(record: RunRecord) -> None:
    _, tied, bare, plain = record.checks
    assert tie_words(tied) == "equal scores at the cut: 0.100 to 0.400 by the order of files"
    assert tie_words(tied.model_copy(update={"tie_lo": None})) == "equal scores at the cut: the order of files decides"
    assert tie_words(bare) == tie_words(plain) == ""
    assert no_interval_words(bare) == "no interval: its share is unseen"
    assert no_interval_words(tied) == ""
    summary = "\n".join(terminal_summary(record))
    assert "note: c-asc[driver]: equal scores at the cut: 0.100 to 0.400" in summary
    assert "note: no interval: its share is unseen" in summary
    comment = render_comment(record).replace("\\", "")
    assert "equal scores at the cut: 0.100 to 0.400" in comment
    assert "its share is unseen" in comment
    page = render_html(record, None)
    assert "<dt>Equal scores</dt>" in page
    assert "no interval: its share is unseen" in page


@pytest.mark.parametrize(
    ("metric", "k", "words"),
    [
        ("bias_at_k", 25, "Bias@25"),
        ("normalized_entropy_at_k", 100, "normalised entropy@100"),
        ("recall_at_k", 1, "Recall@1"),
        ("c_asc", None, "C-ASC"),
        ("p_true", None, "mean P(true)"),
        ("flip_rate", None, "flip rate"),
        ("looked_at_k", 100, "looked at 100"),
    ],
)
def test_metrics_have_names_in_prose(metric: str, k: int | None, words: str) -> None:
    assert metric_words(skew_check("x", 0.3).model_copy(update={"metric": metric, "k": k})) == words


def test_an_images_number_is_called_what_it_is(record: RunRecord) -> None:
    asked = {name: fairness_check(None, 0.9).model_copy(update={"probe": name}) for name in (*record.probes, "lost")}
    said = {name: measured_as(record, check) for name, check in asked.items()}
    assert said == {"words": "cosine", "hard_labels": "P(true)", "pair": "P(positive)", "lost": "value"}


def test_an_older_record_without_words_and_ties_is_still_read(tmp_path: Path) -> None:
    path = write_results(example_record(), tmp_path)
    whole, data = read_results(path), json.loads(path.read_text(encoding="utf-8"))
    for check in data["checks"]:
        for name in ("word", "tie_at_k", "tie_lo", "tie_hi"):
            del check[name]
    path.write_text(json.dumps(data), encoding="utf-8")
    assert read_results(path).checks == whole.checks
