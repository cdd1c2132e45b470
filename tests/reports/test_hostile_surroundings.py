"""Text of waivers, gate definitions, baselines, branches and warnings comes from pull requests: it is shown, and does
nothing."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser

import pytest
from example_records import VICIOUS, example_history, example_record, fairness_check, gap_check, vicious_record
from markdown_it import MarkdownIt
from rich.console import Console

from fairgate.records import RunRecord
from fairgate.reports import (
    github_annotations,
    junit_properties,
    junit_suite_properties,
    render_comment,
    render_html,
    terminal_summary,
    terminal_table,
)
from fairgate.reports.ci import inert

UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
OWN_TAGS = {"<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>"}


@pytest.fixture(scope="module")
def vicious() -> RunRecord:
    return vicious_record()


def log_lines(record: RunRecord) -> list[str]:
    """Every line that a CI's log would hold of a run, other than our own commands."""
    console = Console(width=100, file=io.StringIO())
    with console.capture() as captured:
        console.print(terminal_table(record))
    return [*captured.get().splitlines(), *terminal_summary(record)]


def obeyed(line: str) -> bool:
    """Whether GitHub's runner takes a line for a command: `::name` at its start, or `##[name]` anywhere."""
    return line.strip().startswith("::") or re.search(r"##\w*\[", line) is not None


def test_no_line_of_the_log_is_a_command_or_holds_unseen_characters(vicious: RunRecord) -> None:
    lines = log_lines(vicious)
    assert any("stop-commands" in line for line in lines)
    assert [line for line in lines if obeyed(line)] == []
    assert [line for line in lines if UNSEEN.search(line)] == []


@pytest.mark.parametrize("text", ["a ::error::x", "a-::error::x", "::add-mask::x", "x ##[error]y", "##vso[task]y"])
def test_a_name_cannot_begin_a_line_of_the_table_with_a_command(text: str) -> None:
    named = fairness_check("doctor", 0.2, id=text)
    about = fairness_check(text, 0.2)
    broken = about.model_copy(update={"verdict": "error", "reason": f"first\n{text}\n  {text}"})
    for record in (example_record([named, about]), example_record([broken])):
        assert [line for line in log_lines(record) if obeyed(line)] == []


def test_an_inert_line_reads_as_it_did() -> None:
    assert inert("  ::error::x") == "  : :error::x"
    assert inert("a ##[group]b") == "a # #[group]b"
    assert inert("occupations.yaml::skew[nurse]: ## fine") == "occupations.yaml::skew[nurse]: ## fine"


def test_annotations_of_hostile_surroundings_are_one_command_each(vicious: RunRecord) -> None:
    lines = github_annotations(vicious)
    assert len(lines) > 5
    for line in lines:
        assert re.match(r"::(error|warning|notice) title=[^:,\n]*::[^\n]*$", line), line
        assert not UNSEEN.search(line)


def test_junit_properties_hold_no_unseen_characters(vicious: RunRecord) -> None:
    kept = [
        *junit_suite_properties(vicious),
        *(one for check in vicious.checks for one in junit_properties(check, vicious)),
    ]
    assert any("stop-commands" in text for _, text in kept)
    assert not [text for _, text in kept if UNSEEN.search(text) or "\n" in text]


def test_the_comment_of_hostile_surroundings_acts_nowhere(vicious: RunRecord) -> None:
    for limit in (2_000, 6_000, 60_000):
        text = render_comment(vicious, max_chars=limit)
        assert len(text) <= limit
        body = text.split("\n", 1)[1]
        prose = re.sub(r"(`{3,}).*?\1", "", body, flags=re.DOTALL)
        assert set(re.findall(r"</?[a-z]+[^>]*>", prose)) <= OWN_TAGS
        assert "<!--" not in prose
        assert prose.count("<details>") == prose.count("</details>")
        parsed = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough").parse(body)
        kinds = {child.type for token in parsed for child in (token, *(token.children or []))}
        assert not {"link_open", "image", "code_inline", "s_open"} & kinds
        assert not re.search(r"@\w|#\d|www\.", prose)
        assert not UNSEEN.search(text)


def test_a_hostile_definition_keeps_its_three_cells(vicious: RunRecord) -> None:
    text = render_comment(vicious)
    head = text.index("| what | before | now |")
    rows = text[head:].split("\n\n", 1)[0].splitlines()
    assert len(rows) == 5
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_page_of_hostile_surroundings_holds_only_our_own_tags(vicious: RunRecord) -> None:
    text = render_html(vicious, None, example_history(vicious))
    page = _Tags(text)
    assert not {tag for tag, _ in page.seen} & {"script", "link", "iframe", "img", "base", "form", "object"}
    assert not [name for _, attributes in page.seen for name in attributes if name.startswith("on") or name == "style"]
    links = {str(attributes["href"]) for tag, attributes in page.seen if tag == "a"}
    assert {link for link in links if not link.startswith("#")} == {"https://ci.example.org/runs/7"}
    assert not UNSEEN.search(text)
    assert "<!-- -->" not in text
    assert "&lt;script&gt;" in text


def test_hostile_text_is_long_enough_to_mean_something() -> None:
    for part in ("<script>", "@someone", "::error::", "\x1b", "\u202e", "##[", "-->", "</details>"):
        assert part in VICIOUS


def test_a_group_and_a_set_named_like_a_command_stay_inside_their_line() -> None:
    check = gap_check("doctor", "fail")
    worst = check.worst_sets[0].model_copy(update={"set_id": "::error::x"})
    record = example_record([check.model_copy(update={"worst_sets": [worst], "worst_group": "::error::y"})])
    assert [line for line in log_lines(record) if obeyed(line)] == []
