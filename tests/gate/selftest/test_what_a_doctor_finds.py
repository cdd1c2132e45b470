"""Each way in which a gate is off, or stands on nothing, has a finding with a place and a remedy."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from nightly import some
from scratch_git import scratch_git
from toy_repository import SUITE, Toy
from warm_python import warm_python

from fairgate import gate
from fairgate.gate.selftest import Finding
from fairgate.gate.selftest.machine import (
    look_at_cache,
    look_at_dataset,
    look_at_dvc,
    look_at_git,
    look_at_machine,
    look_at_mlflow,
    look_at_names,
)
from fairgate.gate.selftest.pytest_setup import look_at_pytest, read_ini
from fairgate.gate.selftest.run import SelfTestOptions, examine
from fairgate.gate.selftest.suite_inputs import look_at_drift, look_at_models, look_at_suite
from fairgate.reports import read_results, write_results
from fairgate.suites import cache_folder, resolve

ITEMS = {"jobs": 10}
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_options_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("FAIRGATE_", "PYTEST_ADDOPTS", "PYTEST_DISABLE")):
            monkeypatch.delenv(name)


@pytest.fixture
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest is forked, where a test is not about how it starts."""
    monkeypatch.setattr(sys, "executable", warm_python())


def only(found: list[Finding], level: str) -> Finding:
    (one,) = [one for one in found if one.level == level]
    return one


def clear(found: list[Finding]) -> bool:
    return {one.level for one in found} == {"ok"}


def opened(toy: Toy, text: str = SUITE, **typed: str) -> tuple[gate.Prepared, object]:
    toy.write_suite(text)
    prepared = gate.prepare("jobs", toy.root)
    return prepared, resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off", **typed})


def models(toy: Toy, text: str = SUITE, **typed: str) -> list[Finding]:
    prepared, settings = opened(toy, text, **typed)
    return look_at_models(prepared, settings)  # type: ignore[arg-type]


def kept_baseline(toy: Toy) -> Path:
    """A record of `base.csv` in the folder `kept`."""
    prepared, settings = opened(toy, model="scores:base.csv?values=logit", baseline="none")
    settings = replace(settings, report=toy.root / "kept")  # type: ignore[type-var]
    evaluation = gate.evaluate(prepared, settings, command="made for a test")
    gate.publish(evaluation, prepared, settings)
    return toy.root / "kept"


# the machine


def test_the_machine_tells_versions_and_a_device_that_is_not_there(tmp_path: Path) -> None:
    found = look_at_machine("cuda:99", tmp_path)
    assert {one.area for one in found if one.level == "ok"} >= {"python", "packages", "torch", "cache"}
    trouble = only(found, "trouble")
    assert "cuda:99" in trouble.what
    assert "cpu" in (trouble.remedy or "")


def test_a_cache_that_is_off_or_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look_at_cache(tmp_path / "cache").level == "ok"
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("off", os.environ) is None
    assert cache_folder(None, os.environ) == tmp_path / "fairgate"
    assert cache_folder(str(tmp_path), os.environ) == tmp_path
    assert "not kept" in look_at_cache(None).what
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    found = look_at_cache(tmp_path / "file" / "cache")
    assert found.level == "trouble"
    assert "FAIRGATE_CACHE" in (found.remedy or "")


# pytest


def test_pytest_that_runs_everything_is_fine(toy: Toy) -> None:
    assert clear(look_at_pytest(toy.root, ITEMS, read_ini(toy.root)))


@pytest.mark.parametrize(
    ("addopts", "says", "remedy"),
    [
        ("-p no:fairgate", "the gate is off", "-p no:fairgate"),
        ("-k 'not gaps'", "8 of 10 items of 'jobs'", "-k 'not gaps'"),
        ("--deselect fairness_suites/jobs.yaml::useful", "9 of 10 items", "--deselect"),
        ("-k 'not somethingelse'", "for now", "-k 'not somethingelse'"),
    ],
)
@pytest.mark.parametrize("place", some(["pytest.ini", "PYTEST_ADDOPTS"], few=1))
@pytest.mark.usefixtures("_warm")
def test_options_that_drop_items_or_the_plugin_are_found_and_named(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, addopts: str, says: str, remedy: str, place: str
) -> None:
    if place == "PYTEST_ADDOPTS":
        monkeypatch.setenv(place, addopts)
    else:
        (toy.root / place).write_text(f"[pytest]\naddopts = {addopts}\n", encoding="utf-8")
    level = "warning" if says == "for now" else "trouble"
    one = only(look_at_pytest(toy.root, ITEMS, read_ini(toy.root)), level)
    assert says in one.what
    assert remedy in (one.remedy or "")
    assert place in (one.remedy or "")


@pytest.mark.usefixtures("_warm")
def test_plugins_that_are_not_loaded_by_themselves_switch_the_gate_off(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    one = only(look_at_pytest(toy.root, ITEMS, read_ini(toy.root)), "trouble")
    assert "the gate is off" in one.what
    assert "-p fairgate.interfaces.pytest_plugin.plugin" in (one.remedy or "")


@pytest.mark.usefixtures("_warm")
def test_a_conftest_that_breaks_pytest_is_quoted(toy: Toy) -> None:
    (toy.root / "conftest.py").write_text("raise RuntimeError('no such thing')", encoding="utf-8")
    one = only(look_at_pytest(toy.root, ITEMS, read_ini(toy.root)), "trouble")
    assert "0 of 10" in one.what
    assert "no such thing" in one.what


def test_variables_that_speak_over_the_suite_are_named_and_so_are_misspelt_ones(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRGATE_MLFLOW", "https://me:secret@mlflow.example")
    monkeypatch.setenv("FAIRGATE_BASLINE", "none")
    found = [one for one in look_at_pytest(toy.root, {}, read_ini(toy.root)) if one.level == "warning"]
    misspelt, louder = found
    assert "did you mean 'FAIRGATE_BASELINE'" in (misspelt.remedy or "")
    assert "FAIRGATE_MLFLOW=https://***@mlflow.example" in louder.what


def test_the_ini_file_is_the_one_that_pytest_takes(tmp_path: Path) -> None:
    assert read_ini(tmp_path).path is None
    (tmp_path / "setup.cfg").write_text("[tool:pytest]\naddopts = -q\n", encoding="utf-8")
    (tmp_path / "tox.ini").write_text("[tox]\n", encoding="utf-8")
    assert read_ini(tmp_path).get("addopts") == "-q"
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = ["-x", "-k a"]\n', encoding="utf-8")
    assert read_ini(tmp_path).get("addopts") == "-x -k a"
    (tmp_path / "pytest.ini").write_text("", encoding="utf-8")
    assert read_ini(tmp_path).get("addopts") is None
    (tmp_path / "pytest.ini").write_text("addopts", encoding="utf-8")
    one = look_at_pytest(tmp_path, {}, read_ini(tmp_path))[0]
    assert one.level == "trouble"
    assert one.where == str(tmp_path / "pytest.ini")


# suites, baselines, waivers


def test_waivers_are_told_with_what_is_left_of_them(toy: Toy) -> None:
    waivers = """\
waivers:
  - {check: fairness, until: 2026-11-20, reason: "#1"}
  - {check: useful, until: 2026-11-30, reason: "#2"}
  - {check: gaps, subject: doctor, until: 2027-06-01, reason: "#3"}
"""
    prepared, settings = opened(toy, SUITE + waivers, **{"on-inconclusive": "warn"})
    found = look_at_suite(prepared, settings, date(2026, 11, 21))  # type: ignore[arg-type]
    expired = only(found, "trouble")
    assert "fairness expired on 2026-11-20" in expired.what
    assert (expired.where or "").startswith("fairness_suites/jobs.yaml:")
    temperature, soon, lenient = [one for one in found if one.level == "warning"]
    assert "by its label temperature alone" in temperature.what
    assert "9 day(s) are left" in soon.what
    assert "thin evidence opens the gate" in lenient.what
    assert "gaps[doctor] is waived until 2027-06-01 (#3)" in found[-2].what


def test_checkpoints_that_are_there_are_fine_and_missing_ones_are_told(toy: Toy) -> None:
    assert clear(models(toy))
    gone = models(toy, SUITE.replace("tuned.csv", "tunde.csv"))
    assert "--fairness-model" in (only(gone, "warning").remedy or "")
    assert "baseline cannot be used" in only(models(toy, SUITE.replace("base.csv", "bsae.csv")), "trouble").what
    assert "is not a baseline" in only(models(toy, baseline="fiel:kept"), "trouble").what


def test_regression_checks_need_a_baseline_and_a_baseline_needs_checks(toy: Toy) -> None:
    assert "no baseline" in only(models(toy, baseline="none"), "trouble").what
    bounds = "\n".join(line for line in SUITE.splitlines() if "no_worse_than" not in line)
    bounds += "\n  - {id: right, probe: labels, metric: accuracy, at_least: 0.5}\n"
    assert "up to the bounds" in only(models(toy, bounds, baseline="none"), "warning").what
    assert "no check compares" in only(models(toy, bounds), "warning").what


@pytest.mark.usefixtures("_warm")
@pytest.mark.nightly
def test_a_pinned_anchor_is_looked_for_by_its_commit(toy: Toy) -> None:
    git = scratch_git(toy.root)
    commit = git("rev-parse", "HEAD")
    toy.write_suite(f"{SUITE}anchor: git:gone@{commit}\n")
    found = examine(toy.root, SelfTestOptions((sys.executable,), mlflow="off", cache="off"))
    assert f"the merge base with {commit} is {commit[:7]}" in {each.what for each in found}


def test_regression_checks_without_an_anchor_are_named(toy: Toy) -> None:
    assert "losses below the margin add up" in only(look_at_drift(opened(toy)[0]), "warning").what
    assert look_at_drift(opened(toy, SUITE + "anchor: file:kept\n")[0]) == []


def test_a_kept_baseline_is_read_and_a_missing_or_mixed_one_is_trouble(toy: Toy) -> None:
    kept = kept_baseline(toy)
    assert clear(models(toy, baseline="file:kept"))
    assert clear(models(toy, SUITE + "anchor: file:kept\n", baseline="file:kept"))
    (kept / "scores.parquet").write_bytes(b"no scores")
    assert "cannot be read" in only(models(toy, baseline="file:kept"), "trouble").what
    (kept / "scores.parquet").unlink()
    assert "lacks scores.parquet" in only(models(toy, baseline="file:kept"), "trouble").what


def test_a_baseline_of_other_data_or_other_probes_is_told_with_its_reason(toy: Toy) -> None:
    kept = kept_baseline(toy)
    record = read_results(kept / "results.json")
    write_results(record.model_copy(update={"probes": record.probes | {"labels": "other:prompts"}}), kept)
    one = only(models(toy, baseline="file:kept"), "warning")
    assert "prompts, labels or metric version of labels differ" in one.what
    assert "scored again in every run" in one.what
    other = record.dataset.model_copy(update={"fingerprint": "0" * 64, "version": "v9"})
    write_results(record.model_copy(update={"dataset": other}), kept)
    assert "toy/v9" in only(models(toy, baseline="file:kept"), "warning").what
    (toy.root / "base.csv").write_bytes((toy.root / "biased.csv").read_bytes())
    assert "is another checkpoint by now" in only(models(toy, baseline="file:kept"), "trouble").what
    (toy.root / "base.csv").unlink()
    assert "nor can its checkpoint be scored again" in only(models(toy, baseline="file:kept"), "trouble").what


def test_a_record_without_answer_entropies_is_told(toy: Toy) -> None:
    kept = kept_baseline(toy)
    write_results(read_results(kept / "results.json").model_copy(update={"answer_entropy": {}}), kept)
    one = only(models(toy, baseline="file:kept"), "warning")
    assert "no mean answer entropies of labels" in one.what
    assert "fairgate baseline update" in (one.remedy or "")


def test_a_margin_that_the_records_own_comparison_could_not_clear_is_told_with_the_sets_it_takes(toy: Toy) -> None:
    kept = kept_baseline(toy)
    record = read_results(kept / "results.json")

    def with_limit(delta_lo: float, tier: str = "gate") -> None:
        checks = [
            check.model_copy(
                update={"rule": "no_worse_than", "delta": 0.01, "delta_lo": delta_lo, "bound": 0.03, "tier": tier}
            )
            if check.id == "no-regression"
            else check
            for check in record.checks
        ]
        write_results(record.model_copy(update={"checks": checks}), kept)

    with_limit(-0.0499)  # twice the margin below the change takes four times the sets
    one = only(models(toy, baseline="file:kept"), "warning")
    assert "no-regression had limits of 0.060 on 80 sets" in one.what
    assert "a change of 0 would be inconclusive" in one.what
    assert "about 319 sets, a wider margin" in (one.remedy or "")
    for limit, tier in ((-0.05, "watch"), (-0.015, "gate")):
        with_limit(limit, tier)
        assert clear(models(toy, baseline="file:kept"))


def test_a_baseline_in_mlflow_needs_mlflow(toy: Toy) -> None:
    assert "MLflow is off" in only(models(toy, baseline="mlflow:latest"), "trouble").what


# data


def test_a_damaged_dataset_is_trouble(toy: Toy) -> None:
    dataset = gate.prepare("jobs", toy.root).dataset
    assert clear(look_at_dataset(dataset))
    shard = dataset.folder / dataset.manifest.shards[0].file
    shard.write_bytes(shard.read_bytes()[:-100])
    found = only(look_at_dataset(dataset), "trouble")
    assert found.where
    assert found.remedy


@pytest.mark.nightly
def test_dvc_tells_what_is_not_pulled_not_pushed_and_has_no_remote(tmp_path: Path) -> None:
    assert clear(look_at_dvc(tmp_path))

    def dvc(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "dvc", *words], cwd=tmp_path, check=True, capture_output=True)

    dvc("init", "--no-scm", "-q")
    dvc("remote", "add", "--default", "here", "store")
    assert "tracks nothing" in only(look_at_dvc(tmp_path), "warning").what
    dvc("remote", "remove", "here")
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "images").write_text("images", encoding="utf-8")
    dvc("add", "-q", "datasets")
    assert "no remote" in only(look_at_dvc(tmp_path), "warning").what
    dvc("remote", "add", "--default", "here", "store")
    assert "lacks data" in only(look_at_dvc(tmp_path), "trouble").what
    dvc("push", "-q")
    assert clear(look_at_dvc(tmp_path))
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    assert "cannot be reached" in only(look_at_dvc(tmp_path), "trouble").what
    (tmp_path / "elsewhere").rename(tmp_path / "store")
    (tmp_path / "datasets" / "images").unlink()
    (tmp_path / "datasets").rmdir()
    assert "dvc pull" in (only(look_at_dvc(tmp_path), "trouble").remedy or "")
    (tmp_path / "datasets.dvc").write_text("no yaml: [", encoding="utf-8")
    assert "DVC could not tell" in only(look_at_dvc(tmp_path), "trouble").what


def test_a_folder_that_python_takes_for_a_library_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "datasets").mkdir()
    assert look_at_names(tmp_path) == []  # the library is installed
    monkeypatch.setattr("fairgate.data.releases.metadata.distributions", lambda **_: iter(()))
    assert "pip install datasets" in (only(look_at_names(tmp_path), "warning").remedy or "")


# git, MLflow


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_git_baselines_need_history(tmp_path: Path) -> None:
    assert only(look_at_git(tmp_path, []), "warning").where == str(tmp_path)
    assert only(look_at_git(tmp_path, ["origin/main"]), "trouble")
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    for number in range(3):
        git(origin, "commit", "-q", "--allow-empty", "-m", str(number))
    assert clear(look_at_git(origin, ["main"]))
    assert "without a remote" in (only(look_at_git(origin, ["origin/main"]), "trouble").remedy or "")
    git(tmp_path, "clone", "-q", "--depth", "1", origin.as_uri(), str(clone))
    assert "shallow" in only(look_at_git(clone, []), "warning").what
    assert "fetch-depth: 0" in (only(look_at_git(clone, ["origin/main"]), "trouble").remedy or "")


def test_mlflow_off_a_damaged_store_and_waiting_runs_are_told(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    assert "MLflow is off" in only(look_at_mlflow(None, queue, NOW), "warning").what
    new = tmp_path / "new.db"
    assert clear(look_at_mlflow(f"sqlite:///{new}", queue, NOW))
    assert not new.exists()
    with sqlite3.connect(new) as connection:
        connection.execute("create table other (x)")
    connection.close()
    assert "cannot be read" in only(look_at_mlflow(f"sqlite:///{new}", queue, NOW), "trouble").what
    (queue / "a-run").mkdir(parents=True)
    then = time.mktime(datetime(2026, 11, 11, 12).timetuple())
    os.utime(queue / "a-run", (then, then))
    waiting = only(look_at_mlflow(f"sqlite:///{tmp_path / 'none.db'}", queue, NOW), "warning")
    assert "1 run(s) wait to be sent, the oldest for 9 days" in waiting.what
    assert "fairgate push" in (waiting.remedy or "")


class _Mlflow(BaseHTTPRequestHandler):
    """A server with no experiment."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"experiments": []}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_server_that_answers_is_fine_and_one_that_is_gone_is_trouble(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Mlflow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        uri = f"http://me:secret@127.0.0.1:{server.server_address[1]}"
        found = look_at_mlflow(uri, tmp_path, NOW)
        server.shutdown()
        thread.join()
    assert clear(found), found
    gone = only(look_at_mlflow(uri, tmp_path, NOW), "trouble")
    assert "MLflow does not answer" in gone.what
    assert "secret" not in f"{gone}{found}"


def test_a_baseline_at_the_merge_base_is_read_from_there(toy: Toy) -> None:
    kept = kept_baseline(toy)
    kept.rename(toy.root / "elsewhere")
    git(toy.root, "init", "-q", "-b", "main")
    git(toy.root, "add", "fairness_suites")
    git(toy.root, "commit", "-q", "-m", "no baseline yet")
    assert "no baseline is committed" in only(models(toy, baseline="git:main"), "trouble").what
    folder = toy.root / "fairness_suites" / "baselines" / "jobs"
    folder.parent.mkdir()
    (toy.root / "elsewhere").rename(folder)
    git(toy.root, "add", "fairness_suites")
    git(toy.root, "commit", "-q", "-m", "a baseline")
    found = models(toy, baseline="git:main")
    assert clear(found)
    assert "fairness_suites/baselines/jobs at " in (found[-1].where or "")


def test_a_dataset_that_nobody_tracks_is_told(toy: Toy) -> None:
    assert [one.level for one in look_at_dvc(toy.root)] == ["ok"]  # no repository, nothing to track it with
    git = scratch_git(toy.root, ignore="datasets/\n")
    _, untracked = look_at_dvc(toy.root)
    assert untracked.level == "warning"
    assert "a fresh clone has no data" in untracked.what
    (toy.root / ".gitignore").write_text("", encoding="utf-8")
    git.commit("with the data")
    assert [one.level for one in look_at_dvc(toy.root)] == ["ok"]
