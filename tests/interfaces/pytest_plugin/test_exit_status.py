"""pytest's exit status tells a checkpoint that is more biased (1) from one that was not judged (3)."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_repository import SUITE, Toy, toy_repository
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import NEEDS_APPROVAL, NO_VERDICT, CheckResult, NeededApproval
from fairgate.reports import read_results

OFF = ("--fairness-mlflow", "off", "--fairness-cache", "off", "-p", "no:cacheprovider")
MISSING = ("--fairness-model", "scores:nowhere.csv?values=logit")
BIASED = ("--fairness-model", "scores:biased.csv?values=logit")
FAILED = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "CI", "FAIRGATE_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def repository(pytester: pytest.Pytester) -> Toy:
    """A toy repository with an ordinary test that passes and one that fails."""
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_good="def test_good(): pass\n", test_bad="def test_bad(): assert 0\n")
    return toy_repository(pytester.path)


def half_broken(toy: Toy, monkeypatch: pytest.MonkeyPatch, *items: str) -> None:
    """Some items of an evaluation could not be computed."""
    from fairgate import gate

    whole = gate.evaluate

    def broken(*args: object, **options: object) -> gate.Evaluation:
        found = whole(*args, **options)  # type: ignore[arg-type]
        checks = [_error(check) if check.item in items else check for check in found.record.checks]
        record = found.record.model_copy(update={"checks": checks})
        return gate.Evaluation(record.model_copy(update={"verdict": record.decided}), found.scores)

    monkeypatch.setattr("fairgate.gate.evaluate", broken)


def asking(monkeypatch: pytest.MonkeyPatch, suite: str) -> None:
    """Runs of a suite need an approval."""
    from fairgate import gate

    whole = gate.evaluate

    def asks(*args: object, **options: object) -> gate.Evaluation:
        found = whole(*args, **options)  # type: ignore[arg-type]
        needed = [NeededApproval(kind="plugin", what="another", before="none", now="none")]
        update = {"needs_approval": needed if found.record.suite == suite else []}
        return gate.Evaluation(found.record.model_copy(update=update), found.scores)

    monkeypatch.setattr("fairgate.gate.evaluate", asks)


def _error(check: CheckResult) -> CheckResult:
    return check.model_copy(update={"verdict": "error", "reason": "a shard could not be read"})


def test_a_missing_checkpoint_is_no_verdict_and_never_called_a_failure(
    pytester: pytest.Pytester, repository: Toy
) -> None:
    result = pytester.runpytest("--fairness-suite", "jobs", *MISSING, *OFF, "--fairness-report", "out")
    assert result.ret == NO_VERDICT
    result.stdout.fnmatch_lines(
        [
            "not judged: the file does not exist.",
            "*where: *nowhere.csv",
            "*fairness suite jobs: no verdict: the file does not exist; nothing could be computed*",
            "FAILED *::fairness - not judged: *",
        ]
    )
    result.stdout.no_fnmatch_line("*suite jobs: fail*")
    record = read_results(Path(pytester.path) / "out" / "results.json")
    assert record.exit_code == NO_VERDICT
    for name in ("comment.md", "report.html"):
        text = (Path(pytester.path) / "out" / name).read_text(encoding="utf-8")
        assert "no verdict: " in text


def test_the_command_ends_as_pytest_does(repository: Toy) -> None:
    for model, code in (("nowhere", NO_VERDICT), ("biased", FAILED), ("tuned", 0)):
        words = ["--model", f"scores:{model}.csv?values=logit", "--mlflow", "off", "--cache", "off"]
        result = CliRunner().invoke(app, ["check", "jobs", "--root", str(repository.root), *words])
        assert result.exit_code == code, result.output
        assert ("no verdict: " in result.output) == (model == "nowhere")


def test_a_failing_check_counts_more_than_one_that_was_not_judged(
    pytester: pytest.Pytester, repository: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_broken(repository, monkeypatch, "useful", "finds")
    passing = pytester.runpytest("--fairness-suite", "jobs", *OFF)
    assert passing.ret == NO_VERDICT
    passing.stdout.fnmatch_lines(
        [
            "*jobs: no verdict: a shard could not be read; 2 of 10 checks could not be computed*",
            "FAILED *::useful - not judged: *",
        ]
    )
    failing = pytester.runpytest("--fairness-suite", "jobs", *BIASED, *OFF)
    assert failing.ret == FAILED
    failing.stdout.fnmatch_lines(["*fairness suite jobs: fail, and 2 checks could not be computed*"])


def test_a_failing_test_of_the_teams_own_stays_a_failure(pytester: pytest.Pytester, repository: Toy) -> None:
    assert pytester.runpytest("--fairness-suite", "jobs", *MISSING, *OFF, "test_good.py").ret == NO_VERDICT
    assert pytester.runpytest("--fairness-suite", "jobs", *MISSING, *OFF, "test_bad.py").ret == FAILED


def test_a_test_cannot_pose_as_a_check_that_was_not_judged(pytester: pytest.Pytester, repository: Toy) -> None:
    pytester.makepyfile(
        test_poses="def test_x(record_property):\n    record_property('fairgate.verdict', 'error')\n    assert 0\n"
    )
    assert pytester.runpytest("--fairness-suite", "jobs", *MISSING, *OFF, "test_poses.py").ret == FAILED


def test_a_file_that_cannot_be_collected_stays_a_failure(pytester: pytest.Pytester, repository: Toy) -> None:
    pytester.makepyfile(test_broken="import nothing_of_this_name\n")
    words = ("--fairness-suite", "jobs", *MISSING, *OFF, "test_broken.py", "--continue-on-collection-errors")
    assert pytester.runpytest(*words).ret == FAILED


@pytest.mark.parametrize("more", [(), ("-x",), ("-k", "useful")])
def test_it_is_so_for_a_part_of_a_suite(pytester: pytest.Pytester, repository: Toy, more: tuple[str, ...]) -> None:
    assert pytester.runpytest("--fairness-suite", "jobs", *MISSING, *OFF, *more).ret == NO_VERDICT
    assert pytester.runpytest("--fairness-suite", "jobs", *BIASED, *OFF, "-x").ret == FAILED


@pytest.mark.nightly
def test_it_is_so_when_xdist_spreads_the_items(pytester: pytest.Pytester, repository: Toy) -> None:
    pytest.importorskip("xdist")
    spread = ("--fairness-suite", "jobs", *OFF, "-n", "2")
    result = pytester.runpytest_subprocess(*spread, *MISSING)
    assert result.ret == NO_VERDICT
    result.stdout.fnmatch_lines(["*fairness suite jobs: no verdict: nothing*"])
    assert pytester.runpytest_subprocess(*spread, *MISSING, "test_bad.py").ret == FAILED


def test_a_suite_in_which_every_check_is_waived_is_no_pass(pytester: pytest.Pytester, repository: Toy) -> None:
    checks = "checks:\n  - {id: fairness, probe: labels, metric: fairness, at_least: 0.999}\n"
    finds = "  - {id: finds, probe: search, metric: recall_at_k, k: 1, no_worse_than: baseline, margin: 0.1}\n"
    waivers = "".join(f"  - {{check: {name}, until: 2999-01-01, reason: later}}\n" for name in ("fairness", "finds"))
    repository.write_suite(f"{SUITE.partition('checks:')[0]}{checks}{finds}waivers:\n{waivers}")
    result = pytester.runpytest("--fairness-suite", "jobs", *OFF, "--fairness-baseline", "none")
    result.assert_outcomes(xfailed=2)
    assert result.ret == NO_VERDICT
    result.stdout.fnmatch_lines(["*no verdict: no check was held to its bound*"])


@pytest.mark.parametrize("named", [("jobs", "later"), ("later", "jobs")])
def test_no_verdict_on_one_suite_comes_before_an_approval_that_another_needs(
    pytester: pytest.Pytester, repository: Toy, monkeypatch: pytest.MonkeyPatch, named: tuple[str, str]
) -> None:
    asking(monkeypatch, "jobs")
    head = f"{SUITE.partition('checks:')[0]}checks:\n  - {{id: finds, probe: search, metric: recall_at_k, k: 1, "
    repository.write_suite(f"{head}at_least: 0.0}}\n")
    waived = "no_worse_than: baseline, margin: 0.1}\nwaivers:\n  - {check: finds, until: 2999-01-01, reason: later}\n"
    later = f"{head}{waived}".replace("suite: jobs", "suite: later")
    repository.suite.with_name("later.yaml").write_text(later, encoding="utf-8")
    suites = [word for name in named for word in ("--fairness-suite", name)]
    alone = pytester.runpytest(*suites[:2], *OFF, "--fairness-baseline", "none")
    assert alone.ret == (NEEDS_APPROVAL if named[0] == "jobs" else NO_VERDICT)
    assert pytester.runpytest(*suites, *OFF, "--fairness-baseline", "none").ret == NO_VERDICT


def test_a_selection_of_checks_that_pass_is_not_open_while_the_change_needs_an_approval(
    pytester: pytest.Pytester, repository: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, "jobs")
    result = pytester.runpytest("--fairness-suite", "jobs", *BIASED, *OFF, "-k", "finds")
    assert result.ret == NEEDS_APPROVAL


@pytest.mark.parametrize("step", ["clear_report", "prepare", "hold", "evaluate", "publish"])
def test_a_defect_is_no_verdict_either(repository: Toy, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(f"fairgate.gate.{step}", broken)
    words = ["--mlflow", "off", "--cache", "off"]
    result = CliRunner().invoke(app, ["check", "jobs", "--root", str(repository.root), *words])
    assert result.exit_code == NO_VERDICT
    assert "ZeroDivisionError: a defect" in result.output
    assert "no verdict: " in result.output
