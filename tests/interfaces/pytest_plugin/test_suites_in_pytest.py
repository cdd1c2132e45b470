"""`pytest --fairness-suite NAME`: the suite's checks are items, its verdicts the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from toy_repository import SUITE, Toy, toy_repository
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord

OFF = ("--fairness-mlflow", "off", "--fairness-cache", "off", "-p", "no:cacheprovider")
BIASED = ("--fairness-model", "scores:biased.csv?values=logit")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "CI", "FAIRGATE_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def repository(pytester: pytest.Pytester) -> Toy:
    """A toy repository in which there is also an ordinary test."""
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_ordinary="def test_ordinary(): pass\n")
    return toy_repository(pytester.path)


def test_the_plain_command_runs_only_the_suites_items_and_passes(pytester: pytest.Pytester, repository: Toy) -> None:
    result = pytester.runpytest("--fairness-suite", "jobs", *OFF, "-v")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(
        ["*fairness_suites/jobs.yaml::fairness-by-job[[]doctor] PASSED*", "*fairness suite jobs: pass*", "*10 passed*"]
    )
    result.stdout.no_fnmatch_line("*test_ordinary*")


def test_the_summary_is_as_wide_as_columns_says_also_in_a_pipe(
    pytester: pytest.Pytester, repository: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = pytester.runpytest("--fairness-suite", "jobs", *BIASED, *OFF, "-k", "useful")
    start = next(at for at, line in enumerate(result.outlines) if "= fairness suite jobs: " in line)
    shown = [line for line in result.outlines[start:] if not line.startswith("    - {check")]  # whole, to be copied
    assert max(map(len, shown)) <= 80


def test_a_path_adds_its_own_tests(pytester: pytest.Pytester, repository: Toy) -> None:
    result = pytester.runpytest("--fairness-suite", "jobs", *OFF, "test_ordinary.py")
    result.assert_outcomes(passed=11)


def test_without_the_option_suites_are_no_tests(pytester: pytest.Pytester, repository: Toy) -> None:
    pytester.runpytest(*OFF).assert_outcomes(passed=1)


def test_a_more_biased_checkpoint_ends_with_1_and_says_where(pytester: pytest.Pytester, repository: Toy) -> None:
    result = pytester.runpytest("--fairness-suite", "jobs", *BIASED, *OFF)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*dark × female*its set-mates before and * behind now*",
            "*> dark × female*now −0.*baseline*delta −0.*40 sets*",
            "worst set doctor-*dark × female*(nurse)*",
            "defined at fairness_suites/jobs.yaml:*",
            "*fairness suite jobs: fail*",
            "*reproduce: pytest --fairness-suite jobs*",
        ]
    )


def test_all_runs_every_suite_and_keeps_a_report_of_each(pytester: pytest.Pytester, repository: Toy) -> None:
    repository.write_suite(SUITE.replace("suite: jobs", "suite: jobs_again"), "jobs_again")
    pytester.runpytest("--fairness-suite", "all", *OFF, "--fairness-report", "out").assert_outcomes(passed=20)
    for name in ("jobs", "jobs_again"):
        results = pytester.path / "out" / name / "results.json"
        assert RunRecord.model_validate_json(results.read_bytes()).suite == name


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--fairness-suite", "jbos"], "*did you mean 'jobs'*"),
        (["--fairness-suite", "jobs", "--fairness-device", "tpu"], "*is not a value of --fairness-device*"),
    ],
)
def test_a_wrong_suite_or_option_ends_with_4(
    pytester: pytest.Pytester, repository: Toy, args: list[str], message: str
) -> None:
    result = pytester.runpytest(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_missing_dataset_and_a_suite_without_checks_end_with_4(pytester: pytest.Pytester, repository: Toy) -> None:
    repository.write_suite(SUITE.split("checks:")[0] + "checks: []\n")
    assert pytester.runpytest("--fairness-suite", "jobs", *OFF).ret == pytest.ExitCode.USAGE_ERROR
    repository.write_suite(SUITE.replace("dataset: toy", "dataset: absent"))
    result = pytester.runpytest("--fairness-suite", "jobs", *OFF)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*fairgate dataset import*"])


def test_all_without_any_suite_ends_with_4(pytester: pytest.Pytester) -> None:
    assert pytester.runpytest("--fairness-suite", "all").ret == pytest.ExitCode.USAGE_ERROR


def test_a_selection_of_nothing_never_ends_with_0(pytester: pytest.Pytester, repository: Toy) -> None:
    result = pytester.runpytest("--fairness-suite", "jobs", "-k", "nonesuch", *OFF)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_selection_does_not_change_the_corrections(pytester: pytest.Pytester, repository: Toy) -> None:
    def p_values(*options: str) -> dict[str, float | None]:
        pytester.runpytest("--fairness-suite", "jobs", *BIASED, *OFF, "--fairness-report", "out", *options)
        record = RunRecord.model_validate_json((pytester.path / "out" / "results.json").read_bytes())
        return {check.item: check.p_adjusted for check in record.checks}

    assert p_values() == p_values("-k", "gaps and doctor")


def test_thin_evidence_fails_unless_it_is_allowed(pytester: pytest.Pytester, repository: Toy) -> None:
    alone = ("--fairness-suite", "jobs", "--fairness-baseline", "none", *OFF)
    assert pytester.runpytest(*alone).ret == pytest.ExitCode.TESTS_FAILED
    assert pytester.runpytest(*alone, "--fairness-on-inconclusive", "warn").ret == pytest.ExitCode.OK


def test_ini_and_environment_are_read(
    pytester: pytest.Pytester, repository: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nfairness_mlflow = off\nfairness_cache = off\nfairness_report = from_ini\n")
    monkeypatch.setenv("FAIRGATE_MODEL", "scores:biased.csv?values=logit")
    assert pytester.runpytest("--fairness-suite", "jobs").ret == pytest.ExitCode.TESTS_FAILED
    assert (pytester.path / "from_ini" / "report.html").is_file()


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_junit_says_of_the_whole_run_what_it_was_compared_with(
    pytester: pytest.Pytester, repository: Toy, workers: list[str]
) -> None:
    pytester.runpytest_subprocess("--fairness-suite", "jobs", *OFF, *workers, "--junitxml", "junit.xml")
    of_run = ET.parse(pytester.path / "junit.xml").getroot().find("testsuite/properties")
    assert of_run is not None
    said = {each.get("name"): each.get("value") for each in of_run}
    assert said["fairgate.verdict"] == "pass"
    assert said["fairgate.model"] == "scores:tuned.csv?values=logit"
    assert said["fairgate.baseline"] == "scores:base.csv?values=logit"


def test_a_waived_failure_is_expected_and_says_until_when(pytester: pytest.Pytester, repository: Toy) -> None:
    waived = "".join(
        f"  - {{check: {name}, until: 2999-12-31, reason: 'known, see 7'}}\n"
        for name in ("fairness", "fairness-by-job", "skew", "no-regression", "gaps", "useful")
    )
    repository.write_suite(f"{SUITE}waivers:\n{waived}")
    result = pytester.runpytest("--fairness-suite", "jobs", *BIASED, *OFF, "-rx")
    assert result.ret == 0
    assert result.parseoutcomes()["xfailed"] >= 1
    result.stdout.fnmatch_lines(["*XFAIL*gaps*doctor*waived until 2999-12-31: known, see 7*"])


def test_junit_failures_carry_the_numbers(pytester: pytest.Pytester, repository: Toy) -> None:
    pytester.runpytest("--fairness-suite", "jobs", *BIASED, *OFF, "--junitxml", "junit.xml")
    cases = {case.get("name"): case for case in ET.parse(pytester.path / "junit.xml").iter("testcase")}
    failing = cases["gaps[doctor]"]
    assert failing.find("failure") is not None
    properties = {one.get("name"): one.get("value") for one in failing.iter("property")}
    assert any("verdict" in str(name) and value == "fail" for name, value in properties.items())
    assert cases["gaps[chef]"].find("failure") is None


def test_github_gets_annotations(pytester: pytest.Pytester, repository: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    pytester.runpytest("--fairness-suite", "jobs", *BIASED, *OFF).stdout.fnmatch_lines(["::error*"])


def test_an_error_fails_every_item_and_shows_the_remedy(pytester: pytest.Pytester, repository: Toy) -> None:
    result = pytester.runpytest("--fairness-suite", "jobs", "--fairness-model", "scores:tuned.csv", *OFF)
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR  # 3: no verdict
    result.assert_outcomes(failed=10)
    result.stdout.fnmatch_lines(["*values=*"])


def test_an_mlflow_outage_changes_no_verdict_and_loses_no_run(pytester: pytest.Pytester, repository: Toy) -> None:
    # a process of its own: pytester forgets modules after an inner run, and mlflow does not survive that
    result = pytester.runpytest_subprocess(
        "--fairness-suite", "jobs", "--fairness-cache", "off", "--fairness-mlflow", "http://127.0.0.1:9"
    )
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*fairgate push*"])
    assert list((pytester.path / ".fairgate" / "queue").iterdir())


def test_workers_share_one_evaluation_and_reach_the_same_verdicts(pytester: pytest.Pytester, repository: Toy) -> None:
    records = []
    for workers in ((), ("-n", "3")):
        folder = f"out{len(records)}"
        result = pytester.runpytest_subprocess(
            "--fairness-suite", "jobs", *BIASED, *OFF, "--fairness-report", folder, *workers
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["*fairness suite jobs: fail*"])
        results = json.loads((pytester.path / folder / "results.json").read_text(encoding="utf-8"))
        for clock in ("created_at", "seconds"):
            results.pop(clock)
        records.append(results)
    assert records[0] == records[1]


def test_start_up_with_the_plugin_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, pytest; pytest.main(['--co', '-q', '-p', 'fairgate.interfaces.pytest_plugin.plugin', '.']);"
        "import fairgate;"
        "heavy = {'torch', 'mlflow', 'pandas', 'pyarrow', 'numpy', 'pydantic', 'transformers', 'jinja2', 'yaml'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=alone, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_pytest_imports_the_package_as_it_is() -> None:
    module = sys.modules[RunRecord.__module__]
    assert type(module.__spec__ and module.__spec__.loader).__name__ != "AssertionRewritingHook"


def test_a_report_folder_elsewhere_does_not_move_the_repository(
    pytester: pytest.Pytester, repository: Toy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    result = pytester.runpytest("--fairness-suite", "jobs", *OFF, "--fairness-report", str(elsewhere))
    assert result.ret == pytest.ExitCode.OK
    assert (elsewhere / "results.json").is_file()


def test_the_exit_code_is_certain_before_a_run_is_logged(
    pytester: pytest.Pytester, repository: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fairgate.gate.publish", interrupted)
    told = ("--fairness-mlflow", "sqlite:///x.db", "--fairness-cache", "off", "--junitxml", "junit.xml")
    result = pytester.runpytest("--fairness-suite", "jobs", *BIASED, *told)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["jobs: fail*", "=*FAILURES*", "interrupted while*: the verdict stands;*", "✗ jobs: fail*"]
    )
    assert (pytester.path / "junit.xml").is_file()
    words = ["check", "jobs", "--model", BIASED[1], "--root", str(repository.root), "--mlflow", "x", "--cache", "off"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    assert done.output.startswith("jobs: fail"), "before MLflow is told"
    assert "the verdict stands" in done.output


def test_a_defect_while_reports_are_written_is_no_verdict_and_never_a_failed_check(
    pytester: pytest.Pytester, repository: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("fairgate.gate.publish", broken)
    result = pytester.runpytest("--fairness-suite", "jobs", *OFF)
    assert result.ret == 3
    result.stderr.fnmatch_lines(["RuntimeError: a defect"])
    result.stdout.fnmatch_lines(["*fairness suite jobs: pass*", "*10 passed*"])
