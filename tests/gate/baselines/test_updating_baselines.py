"""A baseline is made on purpose: by somebody, for a reason, from a whole run that passed, and never in CI."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate import gate
from fairgate.ground.errors import ScoresError
from fairgate.interfaces.cli.main import app
from fairgate.records import GroupResult, RunRecord
from fairgate.reports import read_results
from fairgate.suites import changes_between, load_suite, proposal_lines, proposed_bounds, weaker, write_bounds
from fairgate.suites.result import undecided

REASON = "the first one"
NOTHING_TO_COMPARE = "there is no baseline to compare with"


def run(toy: Toy, *words: str, ci: str = "") -> tuple[int, str]:
    options = ["--mlflow", "off", "--cache", "off"] if words[0] == "update" else []
    words = (words[0], "jobs", *words[1:], *options, "--root", str(toy.root))
    done = CliRunner().invoke(app, ["baseline", *words], env={"CI": ci, "COLUMNS": "120"})
    return done.exit_code, " ".join(done.output.split())


def folder(toy: Toy) -> Path:
    return toy.root / "fairness_suites" / "baselines" / "jobs"


@pytest.fixture
def kept(toy: Toy) -> Toy:
    """A toy repository with base.csv as its committed baseline."""
    code, output = run(toy, "update", "--model", "scores:base.csv?values=logit", "--reason", REASON)
    assert code == 0, output
    return toy


def test_a_first_baseline_is_compared_with_nothing_and_kept_small_and_whole(toy: Toy) -> None:
    code, output = run(toy, "update", "--reason", REASON)
    assert code == 0
    assert "first baseline" in output
    assert NOTHING_TO_COMPARE not in output
    assert "counts as a failure" not in output
    assert "is worse" not in output
    assert "jobs: measured; what needs a baseline is decided from the next run on" in output
    assert "commit it" in output
    assert "fairgate baseline anchor jobs" in output
    assert sorted(path.name for path in folder(toy).iterdir()) == ["results.json", "scores.parquet"]
    record = read_results(folder(toy) / "results.json")
    assert record.baseline_reason == REASON
    assert record.baseline is None
    assert all(check.worst_sets == [] for check in record.checks)
    assert record.confusions == []


def test_a_first_baseline_proposes_the_bad_end_of_the_worst_interval(toy: Toy) -> None:
    before = toy.suite.read_bytes()
    output = run(toy, "update", "--reason", REASON)[1]
    assert "`--propose` writes them" in output
    record = read_results(folder(toy) / "results.json")
    by_job = [check.lo for check in record.checks if check.id == "fairness-by-job"]
    worst = min(lo for lo in by_job if lo is not None)
    assert len(by_job) == 2
    assert f"fairness-by-job: at_least: {math.floor(worst * 100) / 100:.2f} (in the suite 0.85)" in output
    assert "no-regression: at" not in output
    assert toy.suite.read_bytes() == before, "without --propose, nothing is written"
    assert "bounds" not in run(toy, "update", "--reason", "again", "--baseline", "none")[1]


def test_a_suite_without_bounds_hears_nothing_of_bounds(toy: Toy) -> None:
    suite = load_suite(toy.suite, toy.root).suite
    compared = [check for check in suite.checks if check.rule == "no_worse_than"]
    assert "no bound" in proposal_lines({}, suite, written=False)[0]
    assert proposal_lines({}, suite.model_copy(update={"checks": compared}), written=False) == []


def test_a_first_baseline_may_name_the_branch_that_has_none_yet(toy: Toy) -> None:
    code, output = run(toy, "update", "--reason", REASON, "--baseline", "git:main")
    assert (code, "first baseline" in output) == (0, True), output


def test_written_bounds_are_stricter_and_a_change_of_the_definition(toy: Toy) -> None:
    before = load_suite(toy.suite, toy.root).suite
    code, output = run(toy, "update", "--reason", REASON, "--propose")
    assert code == 0, output
    after = load_suite(toy.suite, toy.root).suite
    changes = changes_between(before, after)
    assert {change.what for change in changes} >= {"checks.fairness.at_least", "checks.fairness-by-job.at_least"}
    assert weaker(before, after) == []
    assert run(toy, "update", "--reason", "the same again")[0] == 0, "the checkpoint meets its own bounds"


def test_groups_without_an_error_get_the_limits_of_the_worst_group_and_the_old_bounds_comment_goes(toy: Toy) -> None:
    served = "  - {id: served, probe: labels, metric: accuracy, over: skin_tone, at_least: 0.1}\n"
    text = toy.suite.read_text(encoding="utf-8")
    note = "  # Right often enough?\n  # passes a harmless change 100% of the time\n"
    toy.write_suite(text.replace("checks:\n", f"checks:\n{note}{served}", 1))
    suite, prepared = load_suite(toy.suite, toy.root).suite, gate.prepare("jobs", toy.root)
    group = GroupResult(group="dark", value=1.0, lo=1.0, hi=1.0, n_sets=80, n_images=80)
    check = undecided(prepared.planned[0], ScoresError("x")).model_copy(
        update={"value": 1.0, "lo": 0.9302, "hi": 1.0, "groups": [group]}
    )
    record = RunRecord.model_construct(checks=[check])
    assert (check.id, proposed_bounds(record, suite)) == ("served", {"served": 0.93})
    write_bounds(toy.suite, {"served": 0.93})
    assert f"checks:\n  # Right often enough?\n{served.replace('0.1', '0.93')}" in toy.suite.read_text(encoding="utf-8")


def test_no_proposed_bound_is_weaker_than_the_suites(toy: Toy) -> None:
    toy.write_suite(toy.suite.read_text(encoding="utf-8").replace("at_least: 0.9}", "at_least: 0.999}"))
    output = run(toy, "update", "--reason", REASON, "--force", "--propose")[1]
    assert " fairness: at_least" not in output
    assert "metric: fairness, at_least: 0.999}" in toy.suite.read_text(encoding="utf-8")


def test_a_first_run_beyond_a_bound_is_no_worse_baseline(toy: Toy) -> None:
    toy.write_suite(toy.suite.read_text(encoding="utf-8").replace("at_least: 0.9}", "at_least: 0.999}", 1))
    code, output = run(toy, "update", "--reason", REASON)
    assert code == 4
    assert "set bounds that this checkpoint meets" in output
    assert "a worse baseline" not in output


@pytest.mark.parametrize(
    ("words", "ci", "problem", "remedy"),
    [
        (["--reason", REASON], "true", "not updated in CI", "on your machine"),
        ([], "", "without a reason", "say why"),
        (["--reason", "  "], "", "without a reason", "say why"),
        (["--reason", REASON, "--model", "scores:none.csv?values=logit"], "", "could not be computed", "fix"),
        (["--reason", REASON, "--model", "scores:none.csv?values=logit", "--force"], "", "could not be", "fix"),
        (["--reason", REASON, "--model", "scores:biased.csv?values=logit"], "", "did not pass (fairness", "force"),
    ],
)
def test_an_update_is_refused_and_leaves_the_old_baseline(
    kept: Toy, words: list[str], ci: str, problem: str, remedy: str
) -> None:
    before = {path.name: path.read_bytes() for path in folder(kept).iterdir()}
    code, output = run(kept, "update", *words, ci=ci)
    assert code == 4
    assert problem in output
    assert remedy in output
    assert {path.name: path.read_bytes() for path in folder(kept).iterdir()} == before


def test_a_run_that_did_not_pass_is_kept_by_force_only(kept: Toy) -> None:
    biased = ["--model", "scores:biased.csv?values=logit", "--reason", "decided in #7"]
    assert run(kept, "update", *biased)[0] == 4
    assert run(kept, "update", *biased, "--force")[0] == 0
    record = read_results(folder(kept) / "results.json")
    assert (record.verdict, record.baseline_reason) == ("fail", "decided in #7")


def test_what_a_killed_update_left_is_swept(kept: Toy) -> None:
    (folder(kept) / ".incoming-x").mkdir()
    assert run(kept, "update", "--reason", "again")[0] == 0
    assert sorted(path.name for path in folder(kept).iterdir()) == ["results.json", "scores.parquet"]


def test_a_folder_that_cannot_be_written_is_said(toy: Toy) -> None:
    (toy.root / "fairness_suites" / "baselines").write_text("in the way", encoding="utf-8")
    code, output = run(toy, "update", "--reason", REASON)
    assert code == 4
    assert "the baseline could not be written" in output


def test_show_tells_whose_record_it_is_and_why(kept: Toy) -> None:
    code, output = run(kept, "show")
    assert code == 0
    assert f"reason: {REASON}" in output
    assert "scores:base.csv" in output
    assert "no-regression" in output


def test_diff_tells_checkpoint_and_every_value_before_and_now(kept: Toy) -> None:
    (folder(kept)).rename(kept.root / "old")
    assert run(kept, "update", "--reason", "a new one")[0] == 0
    code, output = run(kept, "diff", "file:old")
    assert code == 0
    assert f"reason: {REASON} -> a new one" in output
    assert "model: scores:base.csv" in output
    assert "fairness-by-job[doctor]" in output
    assert "the same checkpoint" in run(kept, "diff", "file:old", "file:old")[1]


@pytest.mark.parametrize("what", ["none", "model:scores:base.csv?values=logit"])
def test_only_records_that_were_kept_are_shown(kept: Toy, what: str) -> None:
    code, output = run(kept, "show", what)
    assert code == 4
    assert "names no saved record" in output


def summary_of(output: str) -> str:
    return output.partition("fairness suite jobs: ")[2].partition("short test summary")[0]


def pytest_run(toy: Toy, pytester: pytest.Pytester, *words: str) -> tuple[int, str]:
    result = pytester.runpytest_subprocess(
        *("-p", "no:randomly", f"--rootdir={toy.root}", "--fairness-suite", "jobs", "--fairness-update-baseline"),
        *("--fairness-mlflow", "off", "--fairness-cache", "off", *words),
    )
    return int(result.ret), " ".join([*result.outlines, *result.errlines])


@pytest.fixture
def on_a_desk(monkeypatch: pytest.MonkeyPatch, toy: Toy) -> None:
    monkeypatch.setenv("CI", "")
    monkeypatch.chdir(toy.root)


@pytest.mark.usefixtures("on_a_desk")
def test_pytest_keeps_a_whole_run_that_passed(toy: Toy, pytester: pytest.Pytester) -> None:
    code, output = pytest_run(toy, pytester, "--fairness-reason", REASON)
    assert code == 1, output  # without a baseline, regression checks are inconclusive, which is no pass
    assert "baseline: fairness_suites/baselines/jobs is written" in output
    assert read_results(folder(toy) / "results.json").baseline_reason == REASON
    assert NOTHING_TO_COMPARE not in summary_of(output)


@pytest.mark.usefixtures("on_a_desk")
def test_pytest_says_what_is_undecided_where_a_committed_baseline_is_left_out(
    kept: Toy, pytester: pytest.Pytester
) -> None:
    _, output = pytest_run(kept, pytester, "--fairness-reason", REASON, "--fairness-baseline", "none")
    assert "4 checks were not compared: there is no baseline" in summary_of(output)


@pytest.mark.usefixtures("on_a_desk")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "without a reason"),
        (["--fairness-reason", REASON, "-n", "2"], "spread over workers"),
        (["--fairness-reason", REASON, "-k", "useful"], "only a part of the suite was run"),
        (["--fairness-reason", REASON, "--fairness-baseline", "none", "-x"], "only a part of the suite was run"),
        (["--fairness-reason", REASON, "--fairness-model", "scores:biased.csv?values=logit"], "did not pass"),
    ],
)
def test_pytest_refuses_what_the_command_refuses_and_part_of_a_run(
    toy: Toy, pytester: pytest.Pytester, words: list[str], problem: str
) -> None:
    code, output = pytest_run(toy, pytester, *words)
    assert code in (1, 4)
    assert problem in output
    assert not folder(toy).exists()


@pytest.mark.usefixtures("on_a_desk")
def test_pytest_refuses_to_update_in_ci(toy: Toy, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    code, output = pytest_run(toy, pytester, "--fairness-reason", REASON)
    assert code == 4
    assert "not updated in CI" in output
