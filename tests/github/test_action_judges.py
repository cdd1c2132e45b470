"""The composite action's own scripts, carried out in a small repository as GitHub's runner would."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from github_expressions import evaluate, holds
from github_files import ACTION, PULL, Ran, carry_out, defaults, machine, read, step_of
from scratch_git import scratch_git
from toy_repository import SUITE, Toy
from typer.testing import CliRunner
from warm_python import warm_python

from fairgate.interfaces.cli.main import app
from fairgate.reports import read_results

BIASED = "scores:biased.csv?values=logit"
TUNED = "scores:tuned.csv?values=logit"
MARKS = ["$(touch x)", "`touch x`", "'; touch x; '", '" && touch x "', "--help", "jobs\n::add-mask::a"]


def _inputs(**given: str) -> dict[str, object]:
    named = {name.replace("_", "-"): text for name, text in given.items()}
    return {"inputs": {**defaults(ACTION), "suite": "jobs", "python": warm_python(), **named}}


def _judge(toy: Toy, environment: Mapping[str, str] | None = None, **given: str) -> Ran:
    """The gate's step."""
    env = {"CI": "true", **(environment or {})}
    return carry_out(step_of(ACTION, "Judge the checkpoint"), _inputs(**given), toy.root, _temp(toy), env)


def _temp(toy: Toy) -> Path:
    """The runner's folder for a job: beside the checkout."""
    return toy.root.with_name(f"{toy.root.name}-runner")


def _verdict(ran: Ran) -> str:
    """The action's output, as the runner works it out."""
    context = {"steps": {"gate": {"outputs": ran.outputs}}}
    return str(evaluate(str(read(ACTION)["outputs"]["verdict"]["value"]).strip("${} "), context))


def test_a_harmless_checkpoint_passes_and_the_job_is_told(toy: Toy) -> None:
    ran = _judge(toy)
    assert ran.code == 0, ran.log
    assert ran.outputs["outcome"] == "open"
    assert "fairgate jobs" in ran.summary
    assert not [line for line in ran.obeyed if line.startswith("::error")]
    assert _verdict(ran) == "pass"


def test_a_more_biased_checkpoint_fails_with_annotations_and_a_summary(toy: Toy) -> None:
    ran = _judge(toy, model=BIASED, report="out")
    assert ran.code == 1
    assert any(line.startswith("::error title=jobs gaps[doctor]") for line in ran.obeyed)
    assert "dark × female" in ran.summary
    assert ran.summary.count("## ") == 1
    assert _verdict(ran) == "fail"
    assert sorted(path.name for path in (toy.root / "out").iterdir())[-2:] == ["results.json", "scores.parquet"]
    assert ran.outputs["outcome"] == "shut"


def test_a_checkpoint_that_is_not_there_is_no_verdict_and_the_job_fails(toy: Toy) -> None:
    ran = _judge(toy, model="scores:nowhere.csv")
    assert ran.code == 3, ran.log
    assert ran.outputs["outcome"] == "no verdict"
    assert any(line.startswith("::error title=fairgate::No verdict: something could not") for line in ran.obeyed)
    assert _verdict(ran) == "error"


def test_a_suite_that_is_not_there_ends_with_4_and_without_a_verdict(toy: Toy) -> None:
    ran = _judge(toy, suite="jbos")
    assert ran.code == 4
    assert "did you mean 'jobs'" in ran.log
    assert ran.obeyed == [
        "::error title=fairgate::No verdict: the gate wrote no report. The log of this step says why."
    ]
    assert ran.outputs["outcome"] == "no verdict"
    assert _verdict(ran) == "error"


def test_a_run_that_ends_with_0_and_without_a_report_is_no_verdict_and_the_job_fails(toy: Toy) -> None:
    stand_in = toy.root / "python"
    stand_in.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    stand_in.chmod(0o755)
    ran = _judge(toy, python="./python")
    assert ran.code == 3, ran.log
    assert ran.outputs["outcome"] == "no verdict"
    assert "::error title=fairgate::No verdict: the gate wrote no report" in ran.obeyed[0]
    assert _verdict(ran) == "error"


@pytest.mark.parametrize("planted", ["folder", "link", "dangling"])
def test_a_report_folder_that_is_there_already_is_neither_used_nor_uploaded(
    toy: Toy, tmp_path: Path, planted: str
) -> None:
    """A pull request may have put it there: an old record in it, or links to the runner's own files."""
    folder = toy.root / "fairness-report"
    if planted == "folder":
        folder.mkdir()
    else:
        folder.symlink_to(tmp_path if planted == "link" else tmp_path / "nowhere")
    ran = _judge(toy)
    assert (ran.code, ran.outputs) == (4, {})
    assert "name another" in ran.obeyed[0]
    later = read(ACTION)["runs"]["steps"][3:]
    context = {**_inputs(artifact="a", tracking_uri="b"), "steps": {"gate": {"outputs": ran.outputs}}}
    assert len(later) == 2
    assert not any(holds(step["if"], context) for step in later)
    assert _verdict(ran) == "error"


def test_thin_evidence_is_let_through_only_where_somebody_says_so(toy: Toy) -> None:
    assert _judge(toy, baseline="none", report="a").code == 1
    ran = _judge(toy, baseline="none", report="b", on_inconclusive="warn")
    assert ran.code == 0
    assert _verdict(ran) == "inconclusive"


def test_code_of_the_judged_repository_is_not_imported(toy: Toy) -> None:
    trap = "raise SystemExit('the pull request ran')"
    for name in ("conftest.py", "sitecustomize.py", "typer.py", "json.py", "fairgate.py"):
        (toy.root / name).write_text(trap, encoding="utf-8")
    ran = _judge(toy, python=sys.executable)
    assert ran.code == 0, ran.log
    assert "the pull request ran" not in ran.log


INSTALLING = [(ACTION, "plugins"), (PULL, "packages")]


def _install(toy: Toy, action: Path, environment: Mapping[str, str], **given: str) -> Ran:
    inputs = {"inputs": {**defaults(action), "suite": "jobs", **given}}
    step = step_of(action, "Install fairgate")
    assert holds(step["if"], inputs)
    env = {"PATH": "/usr/bin:/bin", "GITHUB_ACTION_PATH": str(action.parent), **environment}
    return carry_out(step, inputs, toy.root, _temp(toy), env)


@pytest.mark.parametrize(("action", "name"), INSTALLING)
@pytest.mark.parametrize(
    "words",
    ["./plugin", "team", "team==1.0 ../x", "team==1.0\n../x", "team@https://x.invalid/y", "--index-url=x", "-rx==1"],
)
def test_only_pinned_packages_of_the_workflow_are_installed(toy: Toy, action: Path, name: str, words: str) -> None:
    ran = _install(toy, action, {}, **{name: words})
    assert ran.code == 4
    (said,) = ran.obeyed
    assert f"{name} takes pinned packages, NAME==VERSION" in said
    assert not (_temp(toy) / "fairgate").exists()


@pytest.mark.parametrize(("action", "name"), INSTALLING)
@pytest.mark.parametrize("words", ["one==1.0\ntwo==2.0\n", " one==1.0  two==2.0", "\n  one==1.0\n\n  two==2.0"])
def test_packages_are_read_from_all_lines(toy: Toy, tmp_path: Path, action: Path, name: str, words: str) -> None:
    stand_in = tmp_path / "bin" / "python3"  # it makes environments that hold nothing but itself
    stand_in.parent.mkdir()
    stand_in.write_text(
        '#!/bin/bash\necho "$@"\nif [ "$3" = venv ]; then mkdir -p "$5/bin"; cp "$0" "$5/bin/python"; fi\n',
        encoding="utf-8",
    )
    stand_in.chmod(0o755)
    ran = _install(toy, action, {"PATH": f"{stand_in.parent}:/usr/bin:/bin"}, **{name: words})
    assert ran.code == 0, ran.log
    assert ran.log.endswith(" one==1.0 two==2.0\n")


@pytest.mark.parametrize(("action", "name"), INSTALLING)
def test_packages_that_a_given_python_would_not_get_are_an_error(toy: Toy, action: Path, name: str) -> None:
    ran = _install(toy, action, {}, python=sys.executable, **{name: "team==1.0"})
    assert ran.code == 4
    assert f"{name} has no effect where python is given" in ran.obeyed[0]


def test_a_folder_of_the_branch_that_poses_as_an_installed_package_is_not_found(toy: Toy) -> None:
    folder = toy.root / "evil-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text(
        "[fairgate.metrics]\nsound = evil:Metric\n[fairgate.outputs]\nevil = evil:Output\n", encoding="utf-8"
    )
    (toy.root / "evil.py").write_text("raise SystemExit('the pull request ran')", encoding="utf-8")
    toy.write_suite(SUITE.replace("metric: fairness, at_least: 0.9}", "metric: sound, at_least: 0.9}"))
    ran = _judge(toy, python=sys.executable)
    assert ran.code == 4
    assert "the pull request ran" not in ran.log
    assert "'sound' is none of the known names" in ran.log


def test_a_pull_request_is_held_against_its_base_branch_unless_told_otherwise(toy: Toy) -> None:
    git = scratch_git(toy.root, ignore="out-*/\n")
    words = ["baseline", "update", "jobs", "--reason", "the first", "--root", str(toy.root), "--mlflow", "off"]
    kept = CliRunner().invoke(app, [*words, "--cache", "off"], env={"CI": ""})
    assert kept.exit_code == 0, kept.output
    git("update-ref", "refs/remotes/origin/main", git.commit("a baseline"))
    git("switch", "--quiet", "--create", "loosen")
    toy.write_suite(SUITE.replace("margin: 0.04", "margin: 0.9").replace("tuned.csv", "biased.csv"))
    git.commit("a loosened margin beside a more biased checkpoint")

    ran = _judge(toy, {"GITHUB_BASE_REF": "main"}, report="out-pr")
    assert ran.code == 1, ran.log
    record = read_results(toy.root / "out-pr" / "results.json")
    assert record.baseline is not None
    assert record.baseline.source == "git:origin/main"
    assert record.definition is not None
    assert "gaps" in record.definition.changes[0].what
    assert "dark × female" in ran.summary
    alone = _judge(toy, {"GITHUB_BASE_REF": "main"}, report="out-told", baseline="model:scores:base.csv?values=logit")
    told = read_results(toy.root / "out-told" / "results.json")
    assert told.baseline is not None, alone.log
    assert told.baseline.source.startswith("model:")
    assert told.definition == record.definition


def test_a_base_branch_that_was_not_fetched_is_said(toy: Toy) -> None:
    scratch_git(toy.root)("remote", "add", "origin", "elsewhere")
    ran = _judge(toy, {"GITHUB_BASE_REF": "main"})
    assert ran.code == 4
    assert "git:origin/main" in ran.log
    assert "fetch-depth: 0" in ran.log


@pytest.mark.parametrize("text", MARKS)
def test_whatever_inputs_and_branches_are_called_nothing_of_it_runs(toy: Toy, text: str) -> None:
    as_suite = _judge(toy, suite=text, device=text)
    as_others = _judge(toy, {"GITHUB_BASE_REF": text}, model=text, report=f"out/{text}", on_inconclusive="warn")
    for ran in (as_suite, as_others):
        assert ran.code in (1, 4), ran.log
        assert not [line for line in ran.obeyed if not line.startswith("::error title=")]
    assert not list(toy.root.rglob("x"))


def test_a_login_of_mlflow_does_not_reach_the_checkpoint(toy: Toy, tmp_path: Path) -> None:
    step = dict(step_of(ACTION, "Judge the checkpoint"))
    step["run"] = "env"
    logins = {f"MLFLOW_TRACKING_{name}": "secret" for name in ("USERNAME", "PASSWORD", "TOKEN")}
    ran = carry_out(step, _inputs(tracking_uri="elsewhere"), toy.root, tmp_path / ".runner", logins)
    assert "secret" not in ran.log
    assert "FAIRGATE_MLFLOW=off" in ran.log


def test_embeddings_are_gone_after_the_job_unless_told_otherwise(toy: Toy, tmp_path: Path) -> None:
    step = dict(step_of(ACTION, "Judge the checkpoint"))
    step["run"] = step["run"].replace("if [ -e", "env | grep FAIRGATE_CACHE; exit 0; if [ -e")
    for given, folder in (
        ("", f"{tmp_path}/temp/fairgate-cache"),
        ("off", "off"),
        ("/data/cache", "/data/cache"),
        ("cache", f"{toy.root}/cache"),
    ):
        ran = carry_out(step, _inputs(cache=given), toy.root, tmp_path / "temp", {})
        assert ran.log == f"FAIRGATE_CACHE={folder}\n"


def _told(step: str, words: str, given: dict[str, object], toy: Toy, tmp_path: Path) -> str:
    """What a step's fairgate was called with, by a stand-in for Python whose path is relative to the repository."""
    stand_in = toy.root / "bin" / "python"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text(f"#!/bin/sh\npwd\necho {words}\n", encoding="utf-8")
    stand_in.chmod(0o755)
    return carry_out(step_of(ACTION, step), given, toy.root, tmp_path / "temp", {}).log


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("sqlite:///fairgate.db", "sqlite:///{root}/fairgate.db"),
        ("sqlite:////data/fairgate.db", "sqlite:////data/fairgate.db"),
        ("file:mlruns", "file:{root}/mlruns"),
        ("file:///data/mlruns", "file:///data/mlruns"),
        ("mlruns", "{root}/mlruns"),
        ("/data/mlruns", "/data/mlruns"),
        ("https://mlflow.example", "https://mlflow.example"),
        ("databricks", "databricks"),
    ],
)
def test_steps_run_in_a_new_folder_and_relative_inputs_are_of_the_repository(
    toy: Toy, tmp_path: Path, given: str, used: str
) -> None:
    inputs = _inputs(tracking_uri=given, python="bin/python", report="out/r")
    used = used.format(root=toy.root)
    judged = _told("Judge the checkpoint", '"$MLFLOW_TRACKING_URI" "$FAIRGATE_REPORT" "$@"', inputs, toy, tmp_path)
    assert f"\n{used} {toy.root}/out/r -P -m fairgate.interfaces.cli check --root {toy.root} -- jobs\n" in judged
    told = _told("Tell MLflow", '"$@"', inputs, toy, tmp_path)
    assert f"\n-P -m fairgate.interfaces.cli push --from {toy.root}/out/r --mlflow {used}\n" in told
    folders = re.findall(rf"^{tmp_path}/temp/fairgate-\w{{6}}$", judged + told, re.MULTILINE)
    assert len(set(folders)) == 2
    assert not any(list(Path(folder).iterdir()) for folder in folders)


def _record(folder: Path) -> bytes:
    """results.json without its two clocks."""
    kept = (folder / "results.json").read_bytes()
    clocks = re.compile(rb'^  "(created_at|seconds)": [^,\n]+', re.MULTILINE)
    assert len(clocks.findall(kept)) == 2
    return clocks.sub(rb'  "\1": 0', kept)


@pytest.mark.nightly
def test_pytest_xdist_the_command_and_the_action_write_the_same_record_byte_for_byte(toy: Toy) -> None:
    scratch_git(toy.root)
    check = ["check", "jobs", "--model", BIASED, "--mlflow", "off", "--report", "command"]
    by_pytest = [warm_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--fairness-suite", "jobs"]
    by_pytest += ["--fairness-model", BIASED, "--fairness-mlflow", "off"]
    ways = {
        "command": [warm_python(), "-P", "-m", "fairgate.interfaces.cli", *check],
        "pytest": [*by_pytest, "--fairness-report", "pytest"],
        "two": [*by_pytest, "-n", "2", "--fairness-report", "two"],
        "four": [*by_pytest, "-n", "4", "--fairness-report", "four"],
    }
    env = {**machine(), "FAIRGATE_CACHE": "off", "CI": "true"}
    for words in ways.values():
        done = subprocess.run(words, cwd=toy.root, env=env, capture_output=True, timeout=300, check=False)
        assert done.returncode == 1, done.stdout.decode() + done.stderr.decode()
    assert _judge(toy, model=BIASED, report="action").code == 1

    first = _record(toy.root / "command")
    assert json.loads(first)["environment"]["git_commit"] is not None
    for name in (*ways, "action"):
        assert _record(toy.root / name) == first, name
