"""Names of subjects, groups, sets, branches and models are shown as they were written, and do nothing anywhere."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from toy_repository import SUITE, Toy
from trust_world import check, refused
from typer.testing import CliRunner

from fairgate.data import write_dataset
from fairgate.ground.errors import DatasetError, first_harmful, harmless
from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.reports import (
    badge_json,
    badge_svg,
    github_annotations,
    job_summary,
    junit_properties,
    read_results,
    render_code_quality,
    render_comment,
    render_html,
    render_sarif,
    terminal_summary,
    terminal_table,
)
from fairgate.tracking import content

PAYLOAD = (
    "::error::<script>alert(1)</script><img src=x onerror=alert(1)>\"'`|[a](javascript:x)@team #1 \x1b[31m\x07\u202e"
    "\n::set-env name=X::1\r\n##[add-path]/x\n\n# h\n<!-- fairgate --> =1+1 \\input{/etc/passwd}$x$%&_ {{7*7}} "
)
COMMANDS = re.compile(r"^\s*::|##\[", re.MULTILINE)
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Structure(HTMLParser):
    """The tags and attributes of a page, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[tuple[str, str]] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags |= {(tag, name) for name, _ in attrs} | {(tag, "")}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src", "action", "formaction")}


@pytest.fixture(scope="module")
def benign(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """A run that failed, with groups, worst sets and confusions."""
    from toy_repository import toy_repository

    toy = toy_repository(tmp_path_factory.mktemp("toy"))
    assert check(toy, "--model", "scores:biased.csv?values=logit").exit_code == 1
    return read_results(toy.root / "out" / "results.json")


@pytest.fixture(scope="module")
def hostile(benign: RunRecord) -> RunRecord:
    """The same run, every text in it that a stranger can choose replaced."""
    data = benign.model_dump(mode="json")
    data["environment"] |= {"git_branch": "x", "ci_url": "javascript:alert(1)"}
    data |= {"warnings": ["x"], "baseline_reason": "x"}
    data["needs_approval"] = [{"kind": "definition", "what": "x", "before": "x", "now": "x"}]
    return RunRecord.model_validate(poisoned(data, data))


def poisoned(part: Any, whole: dict[str, Any]) -> Any:
    if isinstance(part, list):
        return [poisoned(one, whole) for one in part]
    if not isinstance(part, dict):
        return part
    fixed = {
        "verdict",
        "status",
        "rule",
        "better",
        "metric",
        "correction",
        "against",
        "decided_by",
        "tier",
        "kind",
        "created_at",
        "ci_url",
    }
    fixed |= {"fingerprint", "suite_digest", "scores_digest", "probes"}
    return {
        (f"{PAYLOAD}{key}" if key in {"male", "female", "light", "dark"} else key): PAYLOAD + value
        if isinstance(value, str) and key not in fixed
        else [PAYLOAD + one if isinstance(one, str) else poisoned(one, whole) for one in value]
        if isinstance(value, list)
        else poisoned(value, whole)
        for key, value in part.items()
    }


def test_the_page_keeps_its_structure(benign: RunRecord, hostile: RunRecord) -> None:
    plain, attacked = (Structure(render_html(record, None)) for record in (benign, hostile))
    assert attacked.tags <= plain.tags | {("p", "class"), ("p", ""), ("li", ""), ("ul", ""), ("span", "title")}
    assert not {link for link in attacked.links if not re.match(r"#|https?://|data:image/", link)}
    assert "alert(1)" in render_html(hostile, None)


@pytest.mark.parametrize("render", [render_comment, job_summary])
def test_the_comment_keeps_its_lines_and_links_nothing(benign: RunRecord, hostile: RunRecord, render: Any) -> None:
    text = re.sub(r"^(`{3,})sh\n.*\n\1$", "", render(hostile), flags=re.MULTILINE)  # code is shown as it stands
    assert "/etc/passwd" in text
    assert "<script" not in text
    assert "<img" not in text
    assert "](javascript" not in text
    assert "@team" not in text
    assert text.count("<!--") == render(benign).count("<!--")
    assert not re.search(r"^# h", text, re.MULTILINE)
    assert not CONTROL.search(text)


def test_an_annotation_is_one_command_and_no_other(benign: RunRecord, hostile: RunRecord) -> None:
    lines = github_annotations(hostile)
    assert len(lines) <= len(github_annotations(benign)) + 3  # what the hostile one warns of, and asks for
    for line in lines:
        assert re.match(r"::(error|warning|notice) ", line)
        assert not re.search(r"[\r\n]|##\[", line)
        assert not CONTROL.search(line)


def test_the_terminal_shows_no_escape_and_no_workflow_command(hostile: RunRecord) -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=False)
    console.print(terminal_table(hostile))
    shown = console.file.getvalue() + "\n".join(terminal_summary(hostile))  # type: ignore[attr-defined]
    assert "alert(1)" in shown
    assert not CONTROL.search(shown)
    assert not COMMANDS.search(shown)


def test_junit_properties_are_clean(hostile: RunRecord) -> None:
    for one in hostile.checks:
        for name, text in junit_properties(one, hostile):
            assert not CONTROL.search(name + text)
            ET.fromstring(f"<p>{text.replace('&', '&amp;').replace('<', '&lt;')}</p>")


@pytest.mark.parametrize("render", [render_sarif, render_code_quality])
def test_what_a_code_service_reads_is_on_one_line_and_has_no_control_characters(
    hostile: RunRecord, render: Any
) -> None:
    def texts(part: Any) -> Iterator[str]:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict | list):
            for each in part.values() if isinstance(part, dict) else part:
                yield from texts(each)

    found = [*texts(json.loads(render(hostile, "fairness_suites/jobs.yaml", {})))]
    assert any("alert(1)" in text for text in found)
    assert not [text for text in found if CONTROL.search(text) or COMMANDS.search(text) or "\n" in text]


def test_a_badge_is_one_picture_of_text(hostile: RunRecord) -> None:
    drawn = badge_svg(hostile)
    assert {each.tag.rpartition("}")[2] for each in ET.fromstring(drawn).iter()} <= {
        "svg",
        "title",
        "g",
        "rect",
        "text",
    }
    assert not CONTROL.search(drawn + str(json.loads(badge_json(hostile))))


def test_names_and_values_in_mlflow_and_wandb_are_one_line_of_text(hostile: RunRecord) -> None:
    named = {**content.tags(hostile), **content.params(hostile), "name": content.run_name(hostile)}
    for name, text in named.items():
        assert re.fullmatch(r"[\w./\-: ]{1,250}", name)
        assert not CONTROL.search(text)
        assert "\n" not in text
        assert not COMMANDS.search(text)
    assert all(re.fullmatch(r"[\w./\-: ]{1,250}", name, re.ASCII) for name in content.metrics(hostile))


# End to end: a dataset whose subjects, groups, captions and notice are attacks, through every sink.

SUBJECT, OTHER = "=cmd|' /C calc'!A0 <b>", "chef</title><script>x</script>::add-path::/x"
GROUPS = {"hue": ["@SUM(1+1)<i>&", "\\input{/etc/passwd} $x$ % #"]}


def members(sets: int) -> Iterator[tuple[str, str, str]]:
    for subject, number in product((SUBJECT, OTHER), range(sets)):
        for group in GROUPS["hue"]:
            yield subject, f"{number}<u>{subject}", group


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    root = tmp_path_factory.mktemp("attacked")
    rows = [
        {
            "image": None,
            "path": None,
            "set_id": set_id,
            "member": group,
            "subject": subject,
            "caption": PAYLOAD,
            "hue": group,
        }
        for subject, set_id, group in members(30)
    ]
    write_dataset(
        root / "datasets/evil/v1",
        rows,
        name="evil",
        version="v1",
        attributes=GROUPS,
        recipe={"name": PAYLOAD},
        licence=PAYLOAD,
        counterfactual=True,
        notice=PAYLOAD,
        about=PAYLOAD,
    )
    suite = {
        "schema": 1,
        "suite": "evil",
        "dataset": "evil",
        "probes": {
            "labels": {
                "kind": "zero_shot_classification",
                "template": "{label}",
                "labels": [SUBJECT, OTHER],
                "words": {SUBJECT: SUBJECT, OTHER: OTHER},
            },
            "search": {"kind": "retrieval", "prompts": ["{subject}"], "words": {SUBJECT: SUBJECT, OTHER: OTHER}},
        },
        "decision": {"draws": 500},
        "checks": [
            {"id": "fairness", "probe": "labels", "metric": "fairness", "by": "subject", "at_least": 0.99},
            {"id": "gap", "probe": "labels", "metric": "p_true", "at_least": 0.999},
            {
                "id": "skew",
                "probe": "search",
                "metric": "max_skew_at_k",
                "k": 20,
                "over": "each",
                "by": "subject",
                "at_most": 0.5,
            },
            {"id": "useful", "probe": "labels", "metric": "accuracy", "at_least": 0.1},
            {"id": "finds", "probe": "search", "metric": "recall_at_k", "k": 1, "at_least": 0.1},
        ],
    }
    (root / "fairness_suites").mkdir()
    (root / "fairness_suites/evil.yaml").write_text(json.dumps(suite))
    rng = np.random.default_rng(0)
    with (root / "t.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["set_id", "member", SUBJECT, OTHER])
        for subject, set_id, group in members(30):
            lift = 1.0 if group == GROUPS["hue"][0] else 0.2
            writer.writerow(
                [set_id, group, *(lift * (one == subject) + rng.normal(0, 0.1) for one in (SUBJECT, OTHER))]
            )
    return Toy(root)


def test_a_hostile_dataset_goes_through_every_report_unharmed(attacked: Toy) -> None:
    result = check(attacked, "--model", "scores:t.csv?values=logit", suite="evil")
    assert result.exit_code == 1, result.output
    assert "calc" in result.output
    assert not COMMANDS.search(result.output)
    assert not CONTROL.search(result.output)
    page = (attacked.root / "out/report.html").read_text(encoding="utf-8")
    for name in ("<script>x", "<i>&", "<u>=cmd"):
        assert name not in page
    comment = (attacked.root / "out/comment.md").read_text(encoding="utf-8")
    for name in ("<script", "<i>", "<b>", "<u>"):
        assert name not in comment
    assert not COMMANDS.search(comment)


def test_pytest_and_its_junit_file_survive_a_hostile_dataset(attacked: Toy, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        *(f"--rootdir={attacked.root}", "--fairness-suite", "evil", "--fairness-model", "scores:t.csv?values=logit"),
        *("--fairness-mlflow", "off", "--fairness-cache", "off", f"--junitxml={pytester.path / 'j.xml'}"),
    )
    assert result.ret == 1
    shown = result.stdout.str() + result.stderr.str()
    assert not CONTROL.search(shown)
    assert not COMMANDS.search(shown)
    assert ET.parse(pytester.path / "j.xml").getroot().iter("testcase")


def test_an_audit_hands_out_no_formula_no_macro_and_no_markup(attacked: Toy) -> None:
    words = ["audit", "evil", "--root", str(attacked.root), "--cache", "off", "--report", str(attacked.root / "audit")]
    result = CliRunner().invoke(app, [*words, "--model", "scores:t.csv?values=logit"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert not COMMANDS.search(result.output)
    assert not CONTROL.search(result.output)
    folder = attacked.root / "audit"
    with (folder / "audit.csv").open(encoding="utf-8", newline="") as handle:
        cells = [cell for row in csv.reader(handle) for cell in row]
    assert not [cell for cell in cells if re.match(r"[=@\t\r]|[+-](?![\d.])", cell)]
    assert not CONTROL.search("".join(cells))
    tex = (folder / "audit.tex").read_text(encoding="utf-8")
    assert "\\input" not in tex
    page = (folder / "audit.html").read_text(encoding="utf-8")
    for name in ("<script>x", "<i>&", "<u>=cmd"):
        assert name not in page


def test_a_dataset_is_shown_and_its_card_is_written_without_effect(attacked: Toy) -> None:
    result = CliRunner().invoke(app, ["dataset", "show", "evil", "--root", str(attacked.root / "datasets")])
    assert result.exit_code == 0
    assert not COMMANDS.search(result.output)
    assert not CONTROL.search(result.output)
    card = (attacked.root / "datasets/evil/v1/README.md").read_text(encoding="utf-8")
    _, front, body = card.split("---\n", 2)
    assert not CONTROL.search(front)
    prose = re.sub(r"```json\n.*?\n```", "", body, flags=re.DOTALL)  # code is shown as it stands
    assert "<script" not in prose
    assert "<i>" not in prose


NAMES = [
    "two\nlines",
    "::error::x",
    " ::error::x",
    "a##[group]b",
    "bell\x07",
    "\x1b[31mred",
    "\u202etfel",
    "half\ud800",
    "tab\t",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("column", ["subject", "set_id", "member", "hue"])
def test_a_name_that_a_log_would_act_on_is_refused_in_a_dataset(tmp_path: Path, column: str, name: str) -> None:
    plain = {"image": None, "path": None, "set_id": "1", "member": "a", "subject": "chef", "caption": "", "hue": "x"}
    rows = [{**plain, column: name}, {**plain, "member": "b"}]
    with pytest.raises(DatasetError) as caught:
        write_dataset(
            tmp_path / "d",
            rows,
            name="evil",
            version="v1",
            attributes={"hue": [name, "x"] if column == "hue" else ["x"]},
            recipe={},
            licence="x",
            counterfactual=False,
        )
    assert "reads as a command" in caught.value.problem
    assert not CONTROL.search(str(caught.value))
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_a_log_would_act_on_is_refused_in_a_suite_and_a_manifest(toy: Toy, name: str) -> None:
    toy.write_suite(SUITE.replace("[doctor, nurse]", f"[doctor, {json.dumps(name)}]"))
    output = refused(check(toy))
    assert "probes.labels.labels" in output
    assert "reads as a command" in output or "\\ud" in json.dumps(name)
    assert not CONTROL.search(output)
    toy.write_suite(SUITE)
    path = toy.root / "datasets/toy/v1/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["subjects"][0] = name
    path.write_text(json.dumps(manifest))
    output = refused(check(toy))
    assert "the dataset's manifest is not valid" in output
    assert not CONTROL.search(output)


@pytest.mark.parametrize("text", ["::error::x", " ::error::x", "\n::error::x", "\t ::error::x", "\u3000::error::x"])
def test_no_command_is_left_where_github_trims_the_line(text: str) -> None:
    assert not harmless(text).strip().startswith("::")
    assert first_harmful(["plain", text]) == text


def test_poison_is_in_the_record(hostile: RunRecord) -> None:
    assert all(PAYLOAD in one.reason for one in hostile.checks)
