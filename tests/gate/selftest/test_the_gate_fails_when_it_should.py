"""A planted bias, end to end: real pytest runs fail and name the group, or the doctor says why they do not."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from toy_repository import SUITE, Toy
from typer.testing import CliRunner
from warm_python import warm_python

from fairgate import gate
from fairgate.gate.selftest import Finding
from fairgate.gate.selftest.proof import prove
from fairgate.gate.selftest.trial import BIASED, PLAIN, Bench
from fairgate.interfaces.cli.main import app
from fairgate.reports import read_results
from fairgate.suites import resolve


@pytest.fixture(autouse=True)
def _no_options_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("FAIRGATE_", "PYTEST_XDIST", "PYTEST_CURRENT")):
            monkeypatch.delenv(name)


@pytest.fixture
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest is forked, and runs are not repeated in other ways; the first test does both as a person would."""
    monkeypatch.setattr(sys, "executable", warm_python())
    monkeypatch.setattr("fairgate.gate.selftest.proof._other_ways", lambda _bench: {})


def proved(toy: Toy, text: str = SUITE, strength: float = 0.1) -> list[Finding]:
    toy.write_suite(text)
    settings = resolve(gate.prepare("jobs", toy.root).loaded.suite, {"mlflow": "off", "cache": "off"})
    return prove("jobs", toy.root, settings, strength, lambda _what: None, ("fairgate",))


def only(found: list[Finding], level: str) -> Finding:
    (one,) = [one for one in found if one.level == level]
    return one


def everything_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.nightly
def test_pytest_xdist_and_the_command_line_fail_and_name_the_group(toy: Toy, tmp_path: Path) -> None:
    (toy.root / "conftest.py").write_text("def pytest_report_header():\n    return 'ours'\n", encoding="utf-8")
    (toy.root / "pytest.ini").write_text(
        "[pytest]\naddopts = --junitxml=junit.xml -p no:cacheprovider\n", encoding="utf-8"
    )
    (toy.root / "junit.xml").write_text("ours", encoding="utf-8")
    anchored = toy.write_suite(
        SUITE + "anchor: file:nowhere\nwaivers: [{check: skew, until: 2999-01-01, reason: later}]\n"
    )
    before = everything_in(toy.root)
    kept = tmp_path.parent / f"{tmp_path.name}-kept"
    words = ["doctor", "--suite", "jobs", "--inject-bias", "0.1", "--keep", str(kept), "--root", str(toy.root)]
    done = CliRunner().invoke(app, [*words, "--device", "cpu", "--cache", "off", "--mlflow", "off"])
    assert everything_in(toy.root) == before, "nothing of the team's is touched"
    told = " ".join(done.output.split())
    assert done.exit_code == 1, told
    assert "anchor cannot be used" in told
    assert "1 in trouble" in told
    assert "0.1 is taken from the 80 images of dark × female, on which gaps[chef], gaps[doctor] can decide" in told
    assert "expected exit 1 and saw it: gaps[chef], gaps[doctor] failed and named dark × female" in told
    assert told.count("expected exit 1 and saw it, from the same 3 item(s)") == 2
    for run, what in enumerate(("pytest -n 2", "fairgate check"), 2):
        assert re.search(rf"jobs: run {run} of at most 4 \(\d+ s so far\): {what}", told), "each run is told of"
    assert "an innocent change passes every regression check" in told
    records = {
        name: read_results(kept / "jobs" / "reports" / name / "results.json")
        for name in ("pytest", "xdist", "check", "control")
    }
    assert {name for name, record in records.items() if record.ok} == {"control"}
    assert anchored.is_file()
    again = CliRunner().invoke(app, [*words, "--device", "cpu", "--cache", "off", "--mlflow", "off"])
    assert "name a new folder" in " ".join(again.output.split())


FEW = "groups: {min_sets: 41}\ndecision:"  # each subject has 40 sets, both have 80


@pytest.mark.usefixtures("_warm")
def test_it_is_planted_where_a_check_has_sets_enough_though_others_have_not(toy: Toy) -> None:
    (gaps,) = (line for line in SUITE.splitlines() if "id: gaps" in line)
    tones = gaps.replace("by: subject, ", "").replace("id: gaps", "id: tones").replace("crossed", "skin_tone")
    found = proved(toy, SUITE.replace(gaps, f"{gaps}\n{tones}").replace("decision:", FEW))
    assert "0.1 is taken from the 160 images of dark, on which tones can decide" in found[0].what
    assert "expected exit 1 and saw it: tones failed and named dark" in found[1].what
    assert found[1].level == "ok"


def test_groups_that_are_all_too_small_are_said_and_nothing_is_run(toy: Toy) -> None:
    (one,) = proved(toy, SUITE.replace("decision:", FEW.replace("41", "81")))
    assert one.level == "trouble"
    assert "no check of suite 'jobs' can decide about a bias, planted or real" in one.what
    assert "a verdict takes 81" in one.what
    assert one.ran is None


@pytest.mark.usefixtures("_warm")
def test_each_run_is_told_with_its_number_and_the_time_that_those_before_it_took(toy: Toy) -> None:
    toy.write_suite(SUITE)
    settings = resolve(gate.prepare("jobs", toy.root).loaded.suite, {"mlflow": "off", "cache": "off"})
    told = list[str]()
    prove("jobs", toy.root, settings, 0.1, told.append, ("fairgate",))
    runs = [one for one in told if ": run " in one]
    assert runs[0].startswith("jobs: run 1 of at most "), runs
    assert re.fullmatch(r"jobs: run 2 of at most \d \(\d+ s so far\): pytest on an innocent change", runs[-1]), runs


@pytest.mark.usefixtures("_warm")
def test_margins_wider_than_the_strength_are_named(toy: Toy) -> None:
    one = only(
        proved(toy, SUITE.replace("margin: 0.04", "margin: 0.3").replace("margin: 0.03", "margin: 0.2")), "trouble"
    )
    assert "0.1 taken from dark × female went unseen" in one.what
    assert "gaps[chef]: pass, margin 0.3, moved by -0.07" in one.what
    assert "every margin is as wide as 0.1 or wider" in (one.remedy or "")


@pytest.mark.usefixtures("_warm")
def test_less_than_the_sets_can_show_points_to_power(toy: Toy) -> None:
    one = only(proved(toy, strength=0.04), "trouble")
    assert "0.04 taken from dark × female went unseen" in one.what
    assert "`fairgate power jobs`" in (one.remedy or "")


@pytest.mark.usefixtures("_warm")
def test_a_suite_that_compares_no_bias_is_told_that_it_cannot_see_one(toy: Toy) -> None:
    lines = [line for line in SUITE.splitlines() if not ("no_worse_than" in line and "useful" not in line)]
    one = only(proved(toy, "\n".join(lines)), "warning")
    assert "cannot see this kind of change" in one.what
    assert "no_worse_than: baseline" in (one.remedy or "")


@pytest.mark.usefixtures("_warm")
def test_answers_that_do_not_turn_point_to_metrics_of_probability(toy: Toy) -> None:
    lines = [line for line in SUITE.splitlines() if not ("no_worse_than" in line and "useful" not in line)]
    lines.append("  - {id: right, probe: labels, metric: accuracy, over: each, no_worse_than: baseline, margin: 0.05}")
    one = only(proved(toy, "\n".join(lines)), "trouble")
    assert "right: pass, margin 0.05" in one.what
    assert "`p_true` or `group_gap`" in (one.remedy or "")


@pytest.mark.usefixtures("_warm")
def test_a_waiver_that_would_let_it_through_is_trouble(toy: Toy) -> None:
    waived = "waivers:\n" + "".join(
        f"  - {{check: {check}, until: 2999-01-01, reason: later}}\n" for check in ("gaps", "no-regression")
    )
    one = only(proved(toy, SUITE + waived), "trouble")
    assert "gaps[chef]" in one.what
    assert "a waiver keeps the gate open" in one.what


@pytest.mark.usefixtures("_warm")
def test_a_plugin_that_swallows_the_exit_code_is_trouble(toy: Toy) -> None:
    swallow = "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
    (toy.root / "conftest.py").write_text(swallow, encoding="utf-8")
    one = only(proved(toy), "trouble")
    assert "ended with exit code 0 instead of 1" in one.what


@pytest.mark.usefixtures("_warm")
def test_a_run_that_cannot_start_is_quoted(toy: Toy) -> None:
    (toy.root / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n", encoding="utf-8")
    found = [one for one in proved(toy) if one.level == "trouble"]
    assert len(found) == 2
    assert all("--no-such-option" in one.what for one in found)


def test_a_model_that_cannot_be_opened_is_trouble(toy: Toy) -> None:
    assert "tunde.csv" in (only(proved(toy, SUITE.replace("tuned.csv", "tunde.csv")), "trouble").where or "")


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--suite", "jbos"], "did you mean 'jobs'"), (["--inject-bias", "1.5"], "between 0 and 1")],
)
def test_wrong_usage_ends_with_4(toy: Toy, words: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["doctor", *words, "--root", str(toy.root)])
    assert done.exit_code == 4
    assert says in done.output


def test_a_repository_without_suites_or_with_a_broken_one_is_in_trouble(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairgate.gate.selftest.machine.look_at_machine", lambda *_: [])
    toy.suite.write_text("schema: 1\nsuit: jobs\n", encoding="utf-8")
    words = ["doctor", "--mlflow", "off", "--root", str(toy.root)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "unknown key 'suit'" in done.output
    shutil.rmtree(toy.suite.parent)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "there is no suite in fairness_suites/" in done.output


def test_the_gate_without_pytest_is_the_program_that_the_caller_names(tmp_path: Path) -> None:
    program = (sys.executable, "-c", "import sys; print('started with', sys.argv[1:3])")
    bench = Bench(tmp_path, tmp_path, "jobs", {BIASED: "one", PLAIN: "other"}, kept=False, program=program)
    assert "started with ['check', 'jobs']" in bench.check("check").ran.out
