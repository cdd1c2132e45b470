"""Edits that add what no prompt named fail by group, at the strength that was planted, whatever the reader's error."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from painted_models import register, suite_of_edits
from test_gate_verdicts import by_item, evaluate
from toy_repository import SUITE, Toy
from typer.testing import CliRunner

from fairgate.ground.errors import ScoresError, SuiteError
from fairgate.ground.hashing import digest
from fairgate.interfaces.cli.main import app
from fairgate.metrics import METRICS, Cell, Measure, MetricRequest, measure
from fairgate.probes import PROBES, ProbeScores
from fairgate.reports.sentences import sentence

GENDERS = "{male: a male person, female: a female person}"
TABLE = "{glasses: {glasses: 160, none: 40}, none: {glasses: 20, none: 180}}"
MEASURED = f"measured: {TABLE}"
PROBE = f"""  edits:
    kind: image_editing
    template: "a photo of {{a_word}}"
    words: [doctor, nurse]
    reader:
      model: colour:blurred
      fingerprint: {digest("colour:blurred")}
      attribute: gender
      labels: {GENDERS}
    watched:
      eyes:
        labels: {{glasses: a person with glasses, none: a bare person}}
        {MEASURED}
"""
CHECKS = """\
  - {id: work, probe: edits, metric: edit_success, at_least: 0.9}
  - {id: added, probe: edits, metric: attribute_drift, attribute: eyes, over: gender, no_worse_than: baseline,
     margin: 0.1}
  - {id: lost, probe: edits, metric: attribute_drift, attribute: eyes, label: none, over: gender, at_most: 0.1}
"""


def suite(probe: str = PROBE, checks: str = CHECKS) -> str:
    return suite_of_edits(probe, checks)


@pytest.fixture
def edits(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    register(monkeypatch)
    toy.write_suite(suite())
    return toy


def test_an_editor_that_adds_nothing_passes_under_a_reader_that_is_often_wrong(edits: Toy) -> None:
    found = by_item(evaluate(edits).record)
    assert {check.verdict for check in found.values()} == {"pass"}, {i: c.reason for i, c in found.items()}
    assert found["added"].value == pytest.approx(0, abs=0.1)


def test_glasses_that_an_editor_gives_to_women_fail_by_that_group_at_their_strength(edits: Toy) -> None:
    record = evaluate(edits, model="painted:glasses-0.4").record
    added = by_item(record)["added"]
    groups = {group.group: group for group in added.groups}
    assert {name: group.verdict for name, group in groups.items()} == {"male": "pass", "female": "fail"}
    assert groups["female"].lo < 0.4 < groups["female"].hi < 0.6
    lost = {group.group: group.value for group in by_item(record)["lost"].groups}
    assert lost == {name: pytest.approx(-group.value) for name, group in groups.items()}
    words = sentence(added, record)
    assert words.startswith(f"attribute drift of eyes of female rose by {groups['female'].delta:.3f} ("), words
    assert words.endswith("against the baseline; margin 0.100")


def test_whether_the_readers_error_is_in_an_interval_is_in_the_record(edits: Toy) -> None:
    bound = CHECKS + "  - {id: most, probe: edits, metric: attribute_drift, attribute: eyes, at_most: 0.1}\n"
    edits.write_suite(suite(checks=bound))
    assert str(by_item(evaluate(edits).record)["most"].interval).endswith("; with the reader's error")
    edits.write_suite(suite(PROBE.replace(f"        {MEASURED}\n", ""), bound))
    told = by_item(evaluate(edits).record)["most"].interval or ""
    assert told.endswith("the reader's error was not measured, and is not in it")


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("attribute: eyes, over", "attribute: eye, over", "does not watch"),
        ("label: none", "label: non", "label 'non', which 'eyes' does not have"),
        ("a bare person", "a person with glasses", "two prompts in `labels` are the same"),
        ("{glasses: 20, none: 180}", "{glasses: 180, none: 20}", "as often as in its own"),
        ("        measured", "        over: gender\n        measured", "counted by group if `over`"),
        (MEASURED, f"over: age\n        measured: {{old: {TABLE}, young: {TABLE}}}", "is measured over 'age', which"),
        (
            MEASURED,
            f"over: gender\n        measured: {{male: {TABLE}}}",
            "`measured` is of male, and the groups of gender",
        ),
        (MEASURED, f"over: skin_tone\n        measured: {{light: {TABLE}, dark: {TABLE}}}", "is over other groups"),
        ("none: a bare person}", "none: a bare person, hat: a hat}", "at most 2"),
        ("      eyes:", "      Eyes of:", "another form"),
    ],
)
def test_watched_attributes_that_make_no_sense_are_refused(edits: Toy, old: str, new: str, wanted: str) -> None:
    edits.write_suite(suite(PROBE.replace(old, new), CHECKS.replace(old, new)))
    with pytest.raises(SuiteError, match=wanted):
        evaluate(edits)


def test_prompts_that_the_reader_takes_for_one_text_are_refused(edits: Toy) -> None:
    edits.write_suite(suite(PROBE.replace("a bare person", "a person").replace("a person with glasses", "one")))
    found = by_item(evaluate(edits).record)
    assert any("labels of eyes" in check.reason for check in found.values())


Known = list[list[int]] | dict[str, list[list[int]]]


def request(known: Known | None = None, label: str | None = None) -> MetricRequest:
    """A check of an attribute whose reader was measured with these counts, of all people or by group."""
    watched: dict[str, object] = {"labels": {"on": "with", "off": "without"}}
    tables = known if isinstance(known, dict) else {"": known or []}
    counted = {
        group: {name: {"on": on, "off": off} for name, (on, off) in zip(("on", "off"), table, strict=False)}
        for group, table in tables.items()
    }
    if known is not None:
        watched |= {"measured": counted, "over": "gender"} if "" not in counted else {"measured": counted[""]}
    reader = {"model": "colour:one", "fingerprint": "0" * 64, "attribute": "gender", "labels": {"x": "x", "y": "y"}}
    probe = {"kind": "image_editing", "template": "a {word}", "words": ["a", "b"], "reader": reader}
    asked = PROBES["image_editing"].model_validate({**probe, "watched": {"hat": watched}})
    settings = METRICS["attribute_drift"].Settings(attribute="hat", label=label)
    return MetricRequest("check", "attribute_drift", "edits", settings, (("gender",),), words=("a",), asked=asked)


def drift(gained: list[float], group: list[int], known: Known | None = None, label: str | None = None) -> Measure:
    """Of single images in the groups x (0) and y (1), whose edits gain so much of an attribute."""
    places, person = np.arange(len(group)), np.array(["person"] * len(group))
    cell = Cell(places, places, places.astype(str), person, (np.array(group),), (("x", "y"),))
    answers = [ProbeScores(np.zeros(len(group)), more={"gained_hat": np.array(gained, float)})]
    return measure(request(known, label), cell, answers)


def test_a_group_in_which_two_of_four_gain_and_one_loses_drifts_by_a_quarter_and_is_corrected() -> None:
    gained, group = [1, 1, -1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1, 1, 1]
    assert drift(gained, group).group_values.tolist() == [0.25, 0.25]
    # of 100 with a hat 80 are perceived so, of 100 without 30: 0.25 / (0.8 - 0.3)
    assert drift(gained, group, [[80, 20], [30, 70]]).group_values.tolist() == [0.5, 0.5]


def test_each_group_is_corrected_by_the_readers_error_about_it() -> None:
    """Of x the reader sees 8 of 10 hats and imagines 3 of 10, of y it is never wrong."""
    gained, group = [1, 1, -1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1, 1, 1]
    found = drift(gained, group, {"x": [[8, 2], [3, 7]], "y": [[9, 0], [0, 9]]})
    assert (found.value, found.group_values.tolist()) == (0.5, [0.5, 0.25])
    draws = found.draw(np.ones((4000, len(group)), dtype=np.int32)).groups
    assert draws is not None
    assert np.median(draws, axis=0) == pytest.approx([0.5, 0.25], abs=0.06)


def test_a_corrected_drift_ends_at_1() -> None:
    found = drift([1, 1, 0, 0], [0, 0, 1, 1], [[9, 1], [1, 9]])
    assert found.group_values.tolist() == [1.0, 0.0]


changes = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=4, max_size=12)
counts = st.tuples(st.integers(6, 40), st.integers(0, 5)).map(lambda n: [[n[0], n[1]], [n[1], n[0]]])


@settings(deadline=None, max_examples=30)
@given(gained=changes, known=counts, data=st.data())
def test_the_order_of_images_does_not_matter_and_the_other_label_drifts_the_other_way(
    gained: list[float], known: list[list[int]], data: st.DataObject
) -> None:
    group = [place % 2 for place in range(len(gained))]
    found = drift(gained, group, known).group_values
    order = data.draw(st.permutations(range(len(gained))))
    shuffled = drift([gained[place] for place in order], [group[place] for place in order], known)
    assert shuffled.group_values == pytest.approx(found)
    assert drift(gained, group, known, label="off").group_values == pytest.approx(-found)


@settings(deadline=None, max_examples=30)
@given(gained=changes, known=counts)
def test_a_reader_that_is_never_wrong_corrects_nothing_and_another_one_shrinks_nothing(
    gained: list[float], known: list[list[int]]
) -> None:
    group = [place % 2 for place in range(len(gained))]
    plain = drift(gained, group).group_values
    assert drift(gained, group, [[20, 0], [0, 20]]).group_values == pytest.approx(plain)
    assert (np.abs(drift(gained, group, known).group_values) >= np.abs(plain) - 1e-12).all()


def test_both_runs_meet_the_same_drawn_readers() -> None:
    gained, group = [1, 0, 1, 0, 1, 1], [0, 1, 0, 1, 0, 1]
    sets = np.ones((50, 6), dtype=np.int32)
    runs = [drift(gained, group, [[20, 3], [3, 20]]).draw(sets).groups for _ in range(2)]
    assert runs[0] is not None
    np.testing.assert_array_equal(*runs)
    assert len(np.unique(runs[0][:, 1])) > 40  # and readers differ from draw to draw


def test_a_baseline_that_did_not_watch_the_attribute_is_an_error_with_a_remedy() -> None:
    with pytest.raises(ScoresError, match="hold no 'gained_hat'"):
        METRICS["attribute_drift"].number(request(), ProbeScores(np.zeros(2)))  # type: ignore[attr-defined]


def test_the_reader_of_an_attribute_is_measured_on_a_release_that_records_it(edits: Toy) -> None:
    watched = PROBE.replace("eyes:", "gender:").replace(
        "{glasses: a person with glasses, none: a bare person}", GENDERS
    )
    watched = watched.replace("blurred", "one").replace(digest("colour:blurred"), digest("colour:one"))
    checks = CHECKS.replace("attribute: eyes", "attribute: gender").replace("label: none, ", "")
    edits.write_suite(suite(watched.replace(f"        {MEASURED}\n", ""), checks))
    found = CliRunner().invoke(app, ["suite", "reader", "jobs", "toy", "--root", str(edits.root)])
    assert found.exit_code == 0, found.output
    measured = json.loads(found.stdout.removeprefix("measured: "))
    right, wrong = measured["male"], measured["female"]
    assert (right["female"], wrong["male"], right["unreadable"]) == (0, 0, 0)
    assert right["male"] == wrong["female"] == 160


def test_the_readers_error_is_counted_by_group_where_the_suite_measures_it_over_one(edits: Toy) -> None:
    watched = PROBE.replace("eyes:", "gender:").replace(f"        {MEASURED}\n", "        over: skin_tone\n")
    watched = watched.replace("glasses: a person with glasses, none: a bare person", "").replace("blurred", "one")
    watched = watched.replace("labels: {}", f"labels: {GENDERS}").replace(
        digest("colour:blurred"), digest("colour:one")
    )
    checks = CHECKS.replace("attribute: eyes", "attribute: gender").replace("label: none, ", "")
    edits.write_suite(suite(watched, checks.replace("over: gender", "over: skin_tone")))
    found = CliRunner().invoke(app, ["suite", "reader", "jobs", "toy", "--root", str(edits.root)])
    assert found.exit_code == 0, found.output
    measured = json.loads(found.stdout.removeprefix("measured: "))
    assert {tone: table["male"]["male"] for tone, table in measured.items()} == {"light": 80, "dark": 80}


def test_of_several_readers_the_error_lists_what_can_be_named(edits: Toy) -> None:
    found = CliRunner().invoke(app, ["suite", "reader", "jobs", "toy", "--probe", "edits", "--root", str(edits.root)])
    assert found.exit_code == 4
    assert "edits.eyes" in found.output


def test_a_suite_without_such_a_reader_is_told_where_one_belongs(edits: Toy) -> None:
    edits.write_suite(SUITE)
    found = CliRunner().invoke(app, ["suite", "reader", "jobs", "toy", "--root", str(edits.root)])
    assert found.exit_code == 4
    assert "no probe of suite 'jobs' has a reader" in found.output
