"""A run as a message for Slack and Teams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from example_records import (
    HOSTILE,
    example_record,
    failed_computation,
    fairness_check,
    gap_check,
    photographs_record,
    vicious_record,
)
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import NeededApproval, RunRecord
from fairgate.reports import write_results
from fairgate.reports.short_forms import render_slack, render_teams

FELL = "✗ doctor: dark × female 0.035 behind its set-mates before and 0.345 behind now; margin 0.040"


def slack(record: RunRecord, url: str | None = None) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(render_slack(record, url))
    return message


def teams(record: RunRecord, url: str | None = None) -> dict[str, Any]:
    card: dict[str, Any] = json.loads(render_teams(record, url))["attachments"][0]["content"]
    return card


def read(record: RunRecord) -> dict[str, str]:
    """The text of both messages, block after block."""
    texts = [block["text"]["text"] for block in slack(record)["blocks"] if "text" in block]
    runs = [run["text"] for block in teams(record)["body"] for run in block["inlines"]]
    return {"slack": "\n".join(texts), "teams": "\n".join(runs)}


def test_a_message_has_the_verdict_then_the_finding_then_what_to_do() -> None:
    for name, text in read(example_record([gap_check("doctor", "fail")])).items():
        places = [text.index(said) for said in ("✗ occupations: fail", FELL, "Next: look at", "fairgate audit occup")]
        assert places == sorted(places), name
        assert "doctor-0000" not in text, "aggregates only"


def test_a_message_names_commit_and_branch_where_the_record_has_them() -> None:
    record = example_record([gap_check("doctor", "fail")])
    at = {"git_commit": "0123456789abcdef", "git_branch": "topic\x1b[31m", "git_dirty": False}
    placed = record.model_copy(update={"environment": record.environment.model_copy(update=at)})
    nowhere = record.model_copy(update={"environment": record.environment.model_copy(update=dict.fromkeys(at))})
    for text, without in zip(read(placed).values(), read(nowhere).values(), strict=True):
        assert "commit 0123456, branch topic" in text
        assert "\x1b" not in text
        assert "commit" not in without.partition("Next:")[0]


def test_demonstration_data_are_called_so_wherever_they_are_shown() -> None:
    for check in (gap_check("doctor", "fail"), fairness_check(None, 0.9), failed_computation()):
        record = example_record([check])
        assert record.dataset.notice
        for text in read(record).values():
            assert f"note: {record.dataset.notice}" in text


def test_a_pass_has_its_totals_and_an_approval_its_command() -> None:
    asked = NeededApproval(kind="dataset", what="this change judges on v2", before="a" * 64, now="b" * 64)
    record = example_record([fairness_check(None, 0.9)], needs_approval=[asked])
    for text in read(record).values():
        assert "needs approval: dataset: this change judges on v2" in text
        assert "fairgate approve occupations --from REPORT --reason TEXT" in text
    for text in read(example_record([fairness_check(None, 0.9)])).values():
        assert "1 passed; all 720 sets scored" in text


def test_no_verdict_begins_with_its_reason() -> None:
    for text in read(photographs_record().model_copy(update={"checks": [], "verdict": "error"})).values():
        assert "no verdict: no check was held to its bound" in text
    for text in read(example_record([failed_computation()])).values():
        assert "! occupations: no verdict: 12 of 120 sets were not scored" in text


def test_what_is_too_long_for_a_chat_is_counted_and_cut() -> None:
    record = example_record([fairness_check(f"s{at}" * 200, 0.1) for at in range(300)])
    message = slack(record, "https://ci.example.org/7")
    assert len(message["blocks"][0]["text"]["text"]) <= 150
    assert all(len(block["text"]["text"]) <= 3000 for block in message["blocks"] if "text" in block)
    assert "and 295 more in the report" in read(record)["teams"]
    assert len(teams(record)["body"]) < 20


@pytest.mark.parametrize("record", [vicious_record(), example_record([fairness_check(HOSTILE, 0.2)])])
def test_foreign_text_mentions_nobody_and_links_to_nothing(record: RunRecord) -> None:
    message, card = slack(record, "javascript:alert(1)"), teams(record, "javascript:alert(1)")
    assert not {"<", ">"} & set(message["text"])
    assert {block["text"]["type"] for block in message["blocks"]} == {"plain_text"}
    assert {run["type"] for block in card["body"] for run in block["inlines"]} == {"TextRun"}
    assert "actions" not in card
    assert "\x1b" not in json.dumps(message) + json.dumps(card)


def test_the_report_is_a_button() -> None:
    url = "https://ci.example.org/7"
    record = example_record()
    assert slack(record, url)["blocks"][-1]["elements"][0]["url"] == url
    assert teams(record, url)["actions"] == [{"type": "Action.OpenUrl", "title": "Report", "url": url}]


def test_the_command_writes_both(tmp_path: Path) -> None:
    write_results(example_record([gap_check("doctor", "fail")]), tmp_path)
    result = CliRunner().invoke(app, ["report", "message", str(tmp_path), "--out", str(tmp_path / "chat")])
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in (tmp_path / "chat").iterdir()) == ["slack.json", "teams.json"]
    assert FELL in (tmp_path / "chat" / "slack.json").read_text(encoding="utf-8")


def test_an_error_names_no_picture() -> None:
    broken = failed_computation().model_copy(update={"reason": "there is no number for 1 image: 'jane-doe.jpg'"})
    for text in read(example_record([broken])).values():
        assert "no number for 1 image: '…'" in text
        assert "jane-doe" not in text
