from __future__ import annotations

from typing import Any

import pytest
from past import MARGIN, SKEW, a_run, jobs

from fairgate.records.history import History, PastRun, Question
from fairgate.reports.history_page import history_html
from fairgate.reports.history_text import history_table, move_words, side, sparkline, terminal_lines
from fairgate.tracking import suite_history


def history(*runs: PastRun, **asked: str) -> History:
    return suite_history("jobs", runs, **asked)


@pytest.fixture
def story() -> History:
    """A fall at the third commit, another release at the sixth."""
    values = [0.90, 0.905, 0.84, 0.84, 0.845]
    later = [a_run(n, 0.7, dataset="faces/v2", fingerprint="e" * 64) for n in (6, 7)]
    return history(*(a_run(n, value) for n, value in enumerate(values, 1)), *later)


def table_text(found: History, width: int = 160) -> str:
    from rich.console import Console

    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(history_table(found, width))
    return captured.get()


def test_the_line_falls_where_the_number_does_and_is_cut_where_the_data_changed(story: History) -> None:
    assert sparkline(story.series[0]) == "▇▇▅▅▅╎▁▁"
    row = next(line for line in table_text(story).splitlines() if line.startswith("fairness"))
    assert "0.900" in row
    assert "0.700 [0.690, 0.710]" in row
    assert "−0.065 at 0000003" in row


def test_long_names_are_never_cut_to_look_alike() -> None:
    names = [f"skew/a person who repairs the instruments of an orchestra, part {part}" for part in (1, 2)]
    runs = [a_run(n, more=dict.fromkeys(names, 0.1 * n), asked={"skew": SKEW}) for n in (1, 2)]
    for width in (60, 80, 100):
        shown = table_text(history(*runs), width)
        assert "…" not in shown
        column = "".join(line.partition("  ")[0].strip() for line in shown.splitlines())
        assert {part: f"part{part}]" in column.replace(" ", "") for part in (1, 2)} == {1: True, 2: True}, width


def test_the_anchor_is_a_line_and_a_distance() -> None:
    """Eight steps below the margin, each of them merged: the distance to the release is what adds up."""
    falling = [0.9 - 0.01 * number for number in range(1, 9)]
    runs = [
        a_run(n, now, more={"held-anchor/all": now, "held-anchor/all/delta": now - 0.9}, asked={"held-anchor": MARGIN})
        for n, now in enumerate(falling, 1)
    ]
    found = history(*runs)
    (series,) = found.series
    assert [round(point.anchor or 0, 9) for point in series.points] == [0.9] * 8
    assert "−0.080 from 0.900" in table_text(found)
    page = history_html(found)
    assert page.count('class="anchor"') == 8
    assert "the anchor" in page
    assert "since the anchor" not in table_text(history(a_run(1), a_run(2)))


def test_noise_inside_its_interval_looks_flat() -> None:
    noise = [a_run(n, 0.9 + 0.0005 * (n % 2), half=0.05) for n in range(1, 9)]
    assert len(set(sparkline(history(*noise).series[0]))) == 1


def test_only_the_newest_runs_fit_a_line() -> None:
    many = history(*(a_run(n % 28 + 1, height=n, started_ms=n) for n in range(60))).series[0]
    assert sparkline(many).startswith("…")
    assert len(sparkline(many)) == 41


def test_the_commit_is_told_with_the_rule_by_which_it_was_found(story: History) -> None:
    lines = terminal_lines(story)
    assert lines[0] == "moved at 0000003 (2026-03-03); the checkpoint is the same, 0a1b2c3d:"
    assert lines[1] == "  fairness 0.905 → 0.840, −0.065 where the intervals allow 0.014: worse"
    assert lines[2] == "cut at 0000006 (2026-03-06): dataset faces/v1 became faces/v2"
    assert lines[3].startswith("A number moved if it differs between two consecutive runs")


def test_unmeasured_commits_changed_trees_pull_requests_and_notices_are_said() -> None:
    runs = [a_run(1), a_run(4, 0.5, dirty=True, pull_request="9", notice="A test instrument.")]
    lines = terminal_lines(history(*runs))
    assert lines[0] == (
        "moved at #9 0000004* (2026-03-04), or one of the 2 commits since 0000001 that no run measured; the checkpoint "
        "is the same, 0a1b2c3d:"
    )
    assert lines[-1] == "Note: A test instrument."
    assert terminal_lines(history(a_run(1), a_run(2)))[0] == "No number moved."


def places(*runs: PastRun) -> list[str]:
    return [line for line in terminal_lines(history(*runs)) if line.startswith("moved at")]


FIRST, SECOND, THIRD = (letter * 64 for letter in "abc")
HERE = "9" * 40


def test_a_change_without_an_interval_is_said_to_be_unjudged() -> None:
    bare = [a_run(n, value, half=None) for n, value in [(1, 0.9), (2, 0.1), (3, 0.1)]]
    lines = terminal_lines(history(*bare))
    assert lines[0] == "No number moved, as far as there are intervals."
    assert "not judged, for there is no interval: fairness at 0000002 (2026-03-02)" in lines
    assert "not judged, for there is no interval" in history_html(history(*bare))


def test_a_run_whose_number_is_infinite_or_could_not_be_computed_is_named() -> None:
    none = a_run(2)
    del none.metrics["fairness/all"]  # type: ignore[attr-defined]
    runs = [a_run(1), none, a_run(3)]
    lines = terminal_lines(history(*runs))
    assert [line for line in lines if "no finite number of fairness at 0000002 (2026-03-02)" in line]
    assert "no finite number" in history_html(history(*runs))
    assert not [line for line in terminal_lines(history(a_run(1), a_run(2))) if "no finite number" in line]


def test_of_checkpoints_that_ran_at_one_commit_the_checkpoint_is_named_and_not_the_commit() -> None:
    runs = [
        a_run(1, 0.90, commit=HERE, height=5, model=FIRST),
        a_run(2, 0.50, commit=HERE, height=5, model=SECOND),
        a_run(3, 0.90, commit=HERE, height=5, model=THIRD),
    ]
    assert places(*runs) == [
        "moved at checkpoint bbbbbbbb (2026-03-02), before it aaaaaaaa, both at commit 9999999:",
        "moved at checkpoint cccccccc (2026-03-03), before it bbbbbbbb, both at commit 9999999:",
    ]
    assert "+0.400 at 9999999-cccccccc" in table_text(history(*runs))
    page = history_html(history(*runs))
    assert all(f"9999999-{letter * 8}" in page for letter in "abc")


def test_a_commit_after_one_at_which_several_checkpoints_ran_is_not_blamed() -> None:
    runs = [
        a_run(1, 0.90, commit=HERE, height=5, model=FIRST),
        a_run(2, 0.90, commit=HERE, height=5, model=SECOND),
        a_run(3, 0.50, commit="8" * 40, height=9, model=THIRD),
    ]
    (place,) = places(*runs)
    assert place.startswith("moved at checkpoint cccccccc (2026-03-03) at 8888888, before it bbbbbbbb at 9999999:")
    assert "no commit is named" in place
    assert "no run measured" not in place


def test_a_commit_that_brings_a_checkpoint_is_named_with_it() -> None:
    (place,) = places(a_run(1, 0.9, model=FIRST), a_run(2, 0.5, model=SECOND))
    assert place == "moved at 0000002 (2026-03-02); checkpoint bbbbbbbb, before it aaaaaaaa:"


def test_a_checkpoint_that_stayed_the_same_is_never_blamed() -> None:
    runs = [
        a_run(1, 0.90, commit=HERE, height=5, model=FIRST),
        a_run(2, 0.90, commit=HERE, height=5, model=SECOND),
        a_run(3, 0.50, commit=HERE, height=5, model=SECOND),
        a_run(6, 0.90, height=6, model=SECOND),
    ]
    assert places(*runs) == [
        "moved at 9999999-bbbbbbbb (2026-03-03), with the commit and the checkpoint of the run before:",
        "moved at 0000006 (2026-03-06); the checkpoint is the same, bbbbbbbb:",
    ]


def test_a_checkpoint_that_no_run_named_is_not_made_up() -> None:
    (here,) = places(a_run(1, 0.9, commit=HERE, height=1, model=None), a_run(2, 0.5, commit=HERE, height=1))
    assert here == "moved at 9999999 (2026-03-02), with the commit of the run before; whose checkpoint is not known:"
    (later,) = places(a_run(1, 0.9, model=None), a_run(2, 0.5))
    assert later == "moved at 0000002 (2026-03-02):"


def test_runs_of_no_commit_are_told_apart_by_their_checkpoints() -> None:
    runs = [a_run(n, value, commit=None, height=None, model=model) for n, value, model in
            [(1, 0.9, FIRST), (2, 0.5, SECOND)]]  # fmt: skip
    (place,) = places(*runs)
    assert place.startswith("moved at checkpoint bbbbbbbb (2026-03-02) at 2026-03-02T10:00, before it aaaaaaaa at")


def test_much_is_told_shortly_the_worst_first() -> None:
    doctors = {f"skew/d{n}": n / 10 for n in range(9)}
    wide = {
        f"{name}{end}": value + add for name, value in doctors.items() for end, add in (("/lo", -0.01), ("/hi", 0.01))
    }
    asked = {"skew": jobs(1, 0, 0).questions["skew"]}
    runs = [a_run(n, more={k: v * (n % 2) for k, v in (doctors | wide).items()}, asked=asked) for n in range(1, 12)]
    lines = terminal_lines(history(*runs))
    assert lines[0] == "2 earlier places where numbers moved: see --out FILE.html"
    assert sum(line.startswith("moved at") for line in lines) == 8
    assert lines.count("  and 2 more: see --out FILE.html, or narrow with --check") == 8
    worse = [line.endswith("worse") for line in lines if line.startswith("  skew")]
    assert worse[:6] == [True] * 6 or worse[:6] == [False] * 6


def test_a_drift_is_told() -> None:
    lines = terminal_lines(history(*(a_run(n, 0.9 - 0.005 * n) for n in range(1, 8))))
    assert lines[1].startswith("drifted from 0000001 to 0000007, in no single step: fairness 0.895 → 0.865")


def test_the_page_shows_every_item_loads_nothing_and_fits(story: History) -> None:
    page = history_html(story)
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "://" not in page.replace("http://www.w3.org", "")
    assert "0000003 (2026-03-03)" in page
    assert page.count("cut 1") == 1
    assert page.count('<circle class="now"') == 7
    assert "ring worse" in page


def test_foreign_text_is_escaped_on_the_page() -> None:
    nasty: dict[str, Any] = {
        "branch": "<img src=x>",
        "model": "<s>",
        "dataset": "<b>/v1",
        "notice": "<script>x</script>",
    }
    page = history_html(history(a_run(1, **nasty), a_run(2, 0.5, **nasty, commit="<i>" * 20, created_at="<u>")))
    for raw in ("<img src", "<s>", "<b>/v1", "<script>x", "<i>", "<u>"):
        assert raw not in page


def test_the_page_names_items_that_it_does_not_draw() -> None:
    more = {f"skew/s{n}": 0.5 for n in range(70)}
    page = history_html(history(a_run(1, more=more, asked={"skew": jobs(1, 0, 0).questions["skew"]})))
    assert page.count('class="plot"') == 60
    assert "11 items without a figure" in page


@pytest.mark.parametrize(
    ("metric", "better", "before", "now", "expected"),
    [
        ("answer_gap", "lower", -0.3, 0.1, "better"),
        ("answer_gap", "lower", 0.1, -0.3, "worse"),
        ("answer_gap", "lower", -0.3, 0.3, ""),
        ("group_gap", "higher", 0.3, 0.1, ""),
        ("group_gap", "higher", 0.1, -0.1, "worse"),
        ("group_gap", "higher", 0.3, -0.01, ""),  # its interval holds 0
        ("accuracy", "higher", 0.9, 0.5, "worse"),
    ],
)
def test_a_move_is_worse_only_if_the_size_grew_or_a_group_is_behind(
    metric: str, better: str, before: float, now: float, expected: str
) -> None:
    asked = {"gap": Question(metric, better, "no_worse_than", "baseline", "q")}
    runs = [
        a_run(at, more={f"gap/all{end}": value + add for end, add in (("", 0.0), ("/lo", -0.02), ("/hi", 0.02))},
              asked=asked)
        for at, value in ((1, before), (2, now))
    ]  # fmt: skip
    (series,) = history(*runs, check="gap").series
    (move,) = series.moves
    assert side(series, move) == expected


def test_a_change_that_rounds_to_what_is_allowed_has_a_fourth_decimal() -> None:
    asked = {"gap": Question("group_gap", "higher", "no_worse_than", "baseline", "q")}
    limits = (("", 0.0), ("/lo", -0.0005), ("/hi", 0.0005))
    runs = [
        a_run(at, more={f"gap/all{end}": value + add for end, add in limits}, asked=asked)
        for at, value in ((1, 0.001), (2, 0.002))
    ]
    (series,) = history(*runs, check="gap").series
    words = [move_words(series, move) for move in series.moves]
    assert words == ["gap 0.001 → 0.002, +0.0010 where the intervals allow 0.0007: better"]


@pytest.mark.parametrize(
    ("was", "now", "shown"),
    [
        ("male - dark", "female - dark", ("male × dark", "female × dark")),
        ("White", "Asian - Indian", ("White", "Asian - Indian")),
    ],
)
def test_crossed_groups_have_their_cross_again_and_their_numbers_are_found(
    was: str, now: str, shown: tuple[str, str]
) -> None:
    asked = {"gap": Question("group_gap", "higher", "no_worse_than", "baseline", "q")}
    runs = []
    for at, worst, numbers in ((1, was, {was: -0.02, now: -0.01}), (2, now, {was: -0.02, now: -0.3})):
        named = {f"gap/all/group/{name}": number for name, number in numbers.items()} | {"gap/all": numbers[worst]}
        limits = (("", 0.0), ("/lo", -0.02), ("/hi", 0.02))
        more = {f"{name}{end}": x + add for name, x in named.items() for end, add in limits}
        runs.append(a_run(at, more=more, asked=asked))
    found = history(*runs, check="gap")
    moved, regrouped = terminal_lines(found)[1:3]
    assert moved.startswith(f"  gap of {shown[1]} −0.010 → −0.300")
    assert regrouped == f"gap: the number of {shown[0]}, from 0000002 of {shown[1]}"


@pytest.mark.parametrize("width", [80, 140])
def test_the_reader_sees_that_the_group_changed_and_how_its_number_moved(width: int) -> None:
    asked = {"nobody-falls-behind": Question("group_gap", "higher", "no_worse_than", "baseline", "q")}
    runs = []
    for at, dark, light in ((1, -0.01, -0.02), (2, -0.3, -0.02)):
        stem = "nobody-falls-behind/flight attendant"
        groups = {f"{stem}/group/{name}{end}": value + add for name, value in (("dark", dark), ("light", light))
                  for end, add in (("", 0.0), ("/lo", -0.02), ("/hi", 0.02))}  # fmt: skip
        worst = {f"{stem}{end}": min(dark, light) + add for end, add in (("", 0.0), ("/lo", -0.02), ("/hi", 0.02))}
        runs.append(a_run(at, more={**groups, **worst}, asked=asked))
    found = history(*runs, check="nobody-falls-behind")
    moved, regrouped = terminal_lines(found)[1:3]
    item = "nobody-falls-behind[flight attendant]"
    assert moved == f"  {item} of dark −0.010 → −0.300, −0.290 where the intervals allow 0.028: worse"
    assert regrouped == f"{item}: the number of light, from 0000002 of dark"
    assert regrouped in history_html(found)
    assert "╎" not in sparkline(found.series[0])
    shown = table_text(found, width)
    assert "of dark" in shown
    assert max(map(len, shown.splitlines())) <= width
    assert {"nobody-falls-", "nobody-falls-behind[flight attendant]"} & {
        line.partition("  ")[0] for line in shown.splitlines()
    }
