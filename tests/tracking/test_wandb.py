"""A run in Weights & Biases: the names that MLflow has, and no word to a server that the repository names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from toy_repository import Toy
from tracking_records import a_check, a_record
from typer.testing import CliRunner

from fairgate.ground.errors import TrackingError
from fairgate.interfaces.cli.main import app
from fairgate.records import GroupResult
from fairgate.reports import run_description, write_results
from fairgate.tracking import content, log_to_wandb

KEY = "0badc0de" * 5
PLACE = {"git_branch": "topic", "pull_request": 4}


@pytest.fixture(autouse=True)
def _no_wandb_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)


def shown(run: Path) -> dict[str, Any]:
    """What wandb's own reader finds in the folder of a run."""
    words = [sys.executable, "-P", "-m", "wandb", "leet", "inspect", "--summary", "--json", str(run)]
    done = subprocess.run(words, capture_output=True, check=True, timeout=120, cwd=run)
    return json.loads(done.stdout)


def test_wandbs_own_reader_finds_the_names_and_numbers_that_mlflow_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = GroupResult(group="woman", value=0.3, delta=-0.1, verdict="fail", n_images=9, n_sets=9)
    record = a_record(checks=[a_check("gap", "doctor", verdict="fail", groups=[group])], verdict="fail", **PLACE)
    (tmp_path / "report").mkdir()
    write_results(record, tmp_path / "report")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    words = ["push", "--from", "report", "--wandb", "team/fairness", "--pull-request", "9"]
    sent = CliRunner().invoke(app, words)
    assert sent.exit_code == 0, sent.output
    assert not (tmp_path / "fairgate.db").exists()
    (run,) = (tmp_path / ".fairgate" / "wandb").glob("offline-run-*")
    assert f"`wandb sync .fairgate/wandb/{run.name}`" in sent.output
    found = shown(run)
    assert (found["entity"], found["project"], found["run_id"]) == ("team", "fairness", content.run_key(record)[:16])
    assert (found["name"], found["state"], found["exit_code"]) == (content.run_name(record), "failed", 1)
    assert found["tags"] == ["occupations", "gate fail"]
    assert found["notes"] == run_description(record)
    summary = {name: value for name, value in found["summary"].items() if not name.startswith("_")}
    assert summary == pytest.approx(content.metrics(record))
    assert summary["gap/doctor/group/woman/delta"] == -0.1
    config = found["config"]
    assert config["fairgate.verdict"] == "fail"
    assert config["fairgate.failing"] == "gap[doctor] fail: woman"
    assert config["fairgate.pull_request"] == "9"
    assert json.loads((run / "files" / "results.json").read_text())["suite"] == "occupations"
    assert KEY not in "".join(path.read_text(errors="replace") for path in run.rglob("*") if path.is_file())


class Listener(ThreadingHTTPServer):
    """A server that takes down who talks to it, and with what login."""

    heard: list[str]


@pytest.fixture
def listener() -> Iterator[Listener]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.heard.append(str(self.headers.get("Authorization")))
            self.send_error(403)

        do_GET = do_POST

        def log_message(self, *words: object) -> None:
            pass

    server = Listener(("127.0.0.1", 0), Handler)
    server.heard = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_branch_cannot_have_the_login_sent_to_a_server_of_its_own(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandb").mkdir()
    evil = f"http://127.0.0.1:{listener.server_port}"
    (tmp_path / "wandb" / "settings").write_text(f"[default]\nbase_url = {evil}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("FAIRGATE_WANDB_TIMEOUT", "6")
    ours = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    ours.server_close()  # a port at which nobody listens
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{ours.server_port}")
    outcome = log_to_wandb(a_record(), [], "fairness", tmp_path / "queue")
    assert listener.heard == []
    assert outcome.run_id is None
    assert outcome.queued is not None
    assert outcome.queued.is_dir()
    assert "W&B did not take the run" in outcome.message
    assert "The verdict stands" in outcome.message
    monkeypatch.delenv("WANDB_BASE_URL")  # what wandb itself does in that folder
    words = [sys.executable, "-m", "wandb", "sync", str(outcome.queued)]
    subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert listener.heard


class FakeWandb(ThreadingHTTPServer):
    """As much of a W&B server as `wandb sync` needs; keeps what it is sent, by operation or path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.got: dict[str, list[Any]] = {}


class _Answers(BaseHTTPRequestHandler):
    server: FakeWandb

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer: dict[str, Any] = {}
        if self.path.startswith("/graphql"):
            asked = json.loads(body)
            name = str(asked["query"].split("(")[0].split("{")[0].split()[-1])
            self.server.got.setdefault(name, []).append(asked["variables"])
            answer = {"data": self._data(asked.get("variables") or {})}
        else:
            self.server.got.setdefault(self.path, []).append(body)
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST

    def _data(self, variables: dict[str, Any]) -> dict[str, Any]:
        project = {"id": "p", "name": "fairness", "entity": {"id": "e", "name": "team"}}
        bucket = {"id": "b", "name": "run", "displayName": "d", "config": "{}", "historyLineCount": 0}
        upload = f"http://127.0.0.1:{self.server.server_port}/upload"
        files = [{"name": name, "uploadUrl": f"{upload}/{name}"} for name in variables.get("files", [])]
        return {
            "viewer": {"id": "u", "entity": "team", "username": "me", "flags": "{}"},
            "serverInfo": {"cliVersionInfo": {}, "features": []},
            "upsertBucket": {"bucket": {**bucket, "project": project}, "inserted": True},
            "createRunFiles": {"runID": "run", "uploadHeaders": [], "files": files},
            "project": None,
        }

    def log_message(self, *words: object) -> None:
        pass


def test_a_run_that_the_server_took_waits_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = a_record(verdict="pass", **PLACE)
    with FakeWandb() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        files = [write_results(record, tmp_path)]
        outcome = log_to_wandb(record, files, "team/fairness", tmp_path / "queue")
        server.shutdown()
        thread.join()
    assert outcome.run_id is not None, outcome.message
    assert outcome.queued is None
    assert [path.name for path in (tmp_path / "queue").iterdir()] == [".gitignore"]
    first = server.got["UpsertBucket"][0]
    assert (first["entity"], first["project"], first["name"]) == ("team", "fairness", outcome.run_id)
    assert first["displayName"] == content.run_name(record)
    assert server.got["/upload/results.json"] == [files[0].read_bytes()]
    summary = json.loads(server.got["/upload/wandb-summary.json"][-1])
    assert {name: summary[name] for name in content.metrics(record)} == pytest.approx(content.metrics(record))
    assert "/upload/requirements.txt" not in server.got


def test_where_wandb_is_disabled_nothing_is_written(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    words = ["--root", str(toy.root), "--mlflow", "off", "--cache", "off", "--base", "none", "--wandb", "fairness"]
    run = CliRunner().invoke(app, ["check", "jobs", *words])
    assert run.exit_code == 0, run.output
    assert "nothing was logged, since WANDB_MODE is 'disabled'" in run.output
    assert not (toy.root / ".fairgate").exists()


@pytest.mark.parametrize("link", [".fairgate", ".fairgate/wandb", ".fairgate/wandb/.gitignore"])
def test_a_link_that_a_checkout_holds_is_not_followed(link: str, tmp_path: Path) -> None:
    elsewhere, queue = tmp_path / "elsewhere", tmp_path / "repository" / ".fairgate" / "wandb"
    target = tmp_path / "repository" / link
    (elsewhere / "wandb").mkdir(parents=True)
    target.parent.mkdir(parents=True)
    target.symlink_to(elsewhere / "made" if link.endswith("ignore") else elsewhere)
    with pytest.raises(TrackingError, match="W&B's run cannot be kept: a link would lead the run elsewhere"):
        log_to_wandb(a_record(), [], "fairness", queue)
    assert [path.name for path in elsewhere.rglob("*")] == ["wandb"]


@pytest.mark.parametrize("project", ["", "a/b/c", "../x", "a b", "team/", "x\n"])
def test_what_is_no_project_is_refused(project: str, tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="is no project of W&B"):
        log_to_wandb(a_record(), [], project, tmp_path)


def test_the_verdict_stands_where_wandb_is_not_installed(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairgate.tracking.wandb_sink.find_spec", lambda _: None)
    monkeypatch.setenv("FAIRGATE_WANDB", "fairness")
    words = ["--root", str(toy.root), "--mlflow", "off", "--cache", "off", "--base", "none"]
    run = CliRunner().invoke(app, ["check", "jobs", *words])
    assert run.exit_code == 0, run.output
    assert "W&B was not told of this run, the verdict stands: wandb is not installed." in run.output
    assert "pip install wandb" in run.output


def test_no_ini_file_names_a_project(toy: Toy) -> None:
    from fairgate import gate

    prepared = gate.prepare("jobs", toy.root, ())
    settings = gate.settings_of(prepared, ini=lambda name: "theirs" if name == "fairness_wandb" else None)
    assert settings.wandb is None
    assert gate.settings_of(prepared, wandb="team/ours").wandb == "team/ours"
