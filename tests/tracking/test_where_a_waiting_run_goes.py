"""A waiting run goes where it was meant to go; an address that a branch brought is not believed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import Result
from scratch_git import scratch_git
from tracking_records import a_record
from typer.testing import CliRunner

from fairgate.ground.errors import BaselineError, TrackingError
from fairgate.interfaces.cli.main import app
from fairgate.tracking import log_or_queue, past_runs, push
from fairgate.tracking.queue import Destination, destination_of
from fairgate.tracking.store_session import session

OUT = TrackingError("MLflow did not take the run: it did not answer.")


@pytest.fixture(autouse=True)
def _a_persons_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    for name in ("CI", "GITHUB_REF", "GITHUB_EVENT_PATH", "FAIRGATE_MLFLOW"):
        monkeypatch.delenv(name, raising=False)


def store(name: str, uri: str, tmp_path: Path) -> str:
    """A store with its tables, copied from one: making them takes seconds."""
    with session(uri) as client:
        client.search_experiments(max_results=1)
    shutil.copyfile(uri.removeprefix("sqlite:///"), tmp_path / f"{name}.db")
    return f"sqlite:///{tmp_path}/{name}.db"


def queued(suite: str, uri: str, queue: Path = Path("queue")) -> Path:
    """A run that MLflow did not take, with a page and a record beside it."""
    folder = Path("report")
    folder.mkdir(exist_ok=True)
    for name in ("results.json", "report.html"):
        (folder / name).write_text("{}")
    outcome = log_or_queue(a_record(suite=suite), sorted(folder.iterdir()), uri, queue, outage=OUT)
    assert outcome.queued is not None
    return outcome.queued


def sent_from(*words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, ["push", "--queue", "queue", *words], env=env)


def suites_in(uri: str) -> set[str]:
    with session(uri) as client:
        return {one.name.removeprefix("fairgate/") for one in client.search_experiments()} - {"Default"}


def pull_request_of(uri: str, suite: str) -> str | None:
    (run,) = past_runs(suite, uri, pull_requests=True)
    return run.pull_request


def test_each_run_goes_to_the_store_that_it_was_meant_for(uri: str, tmp_path: Path) -> None:
    team, other = (store(name, uri, tmp_path) for name in ("team", "other"))
    before = suites_in(team)
    queued("meant_for_team", team)
    queued("meant_for_other", other)
    done = sent_from()
    assert done.exit_code == 0, done.output
    assert f"to {team}" in done.output
    assert suites_in(team) - before == {"meant_for_team"}
    assert suites_in(other) - before == {"meant_for_other"}
    assert not Path("fairgate.db").exists(), "the default store takes nothing that was meant for another"
    assert pull_request_of(team, "meant_for_team") is None


def test_a_record_beyond_reason_stays() -> None:
    entry = queued("giant", "sqlite:///here.db")
    os.truncate(entry / "record.json", 51 << 20)
    (one,) = push(Path("queue"))
    assert one.message.startswith(f"{entry} does not hold a run")
    assert "it has more than 50 MB" in one.message


def test_a_relative_store_is_the_one_of_the_folder_in_which_the_gate_ran(uri: str, tmp_path: Path) -> None:
    store("here", uri, tmp_path)
    queued("relative", "sqlite:///here.db")
    (tmp_path / "elsewhere").mkdir()
    os.chdir("elsewhere")
    (sent,) = push(tmp_path / "queue")
    assert sent.run_id is not None
    assert "relative" in suites_in(f"sqlite:///{tmp_path}/here.db")
    assert list(Path().iterdir()) == []


def test_an_address_that_is_named_counts_more(uri: str, tmp_path: Path) -> None:
    queued("named", "https://mlflow.example")
    named = store("named", uri, tmp_path)
    assert sent_from(env={"FAIRGATE_MLFLOW": named}).exit_code == 0
    assert "named" in suites_in(named)
    queued("named_again", "https://mlflow.example")
    assert sent_from("--mlflow", named).exit_code == 0
    assert pull_request_of(named, "named_again") is None


@pytest.mark.parametrize(
    ("uri", "kept"),
    [
        ("https://me:secret@mlflow.example/api", Destination("https://mlflow.example/api", False)),
        ("https://secret@mlflow.example", Destination("https://mlflow.example", False)),
        ("https://mlflow.example/?token=secret", Destination("https://mlflow.example/", False)),
        ("https://mlflow.example/#secret", Destination("https://mlflow.example/", False)),
        ("postgresql://me:sec/ret@db/mlflow", Destination("", False)),
        ("postgresql+psycopg2://me:secret@db:5432/mlflow", Destination("postgresql+psycopg2://db:5432/mlflow", False)),
        ("databricks://secret@place", Destination("databricks://place", False)),
        ("http://[", Destination("", False)),
        ("", Destination("", False)),
        ("http://127.0.0.1:5000", Destination("http://127.0.0.1:5000", True)),
        ("sqlite:////a/b@c.db", Destination("sqlite:////a/b@c.db", True)),
        ("sqlite:////a/b.db?key=secret", Destination("sqlite:////a/b.db", False)),
        ("databricks", Destination("databricks", True)),
    ],
)
def test_no_login_is_written_to_disk_and_what_is_left_out_has_to_be_named(uri: str, kept: Destination) -> None:
    assert destination_of(uri) == kept
    entry = queued("login", uri)
    assert not [path for path in entry.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert not [path for path in entry.rglob("*") if path.is_file() and b"sec/ret" in path.read_bytes()]
    if not kept.complete:
        done = sent_from()
        assert done.exit_code == 1
        assert "not written to disk" in done.output
        assert "--mlflow URI" in done.output
        assert entry.is_dir()


def test_a_run_from_before_addresses_were_kept_goes_to_the_default_store_and_says_so(uri: str, tmp_path: Path) -> None:
    shutil.copyfile(store("fairgate", uri, tmp_path).removeprefix("sqlite:///"), "copy.db")
    entry = queued("from_before", "https://mlflow.example")
    (entry / "destination.json").unlink()
    done = sent_from()
    assert done.exit_code == 0, done.output
    assert "to sqlite:///fairgate.db; no address was queued with it" in done.output
    assert "kept as a run of pull request 'unknown'" in done.output
    assert pull_request_of(f"sqlite:///{tmp_path}/fairgate.db", "from_before") == "unknown"


@pytest.fixture
def listening() -> Iterator[tuple[str, list[str]]]:
    """A host of somebody's choice, and what was sent to it."""
    heard: list[str] = []

    class Host(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(f"{self.path} {self.headers.get('Authorization')}")
            self.send_response(404)
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", heard
    server.shutdown()
    server.server_close()


def refused(done: Result, entry: Path, heard: list[str]) -> bool:
    said = " ".join(done.output.split())
    assert done.exit_code == 1, said
    assert "--mlflow URI" in said
    assert entry.is_dir()
    return heard == [] and "not believed" in said


def test_what_this_machine_queued_reaches_a_host_and_what_a_branch_brought_does_not(
    listening: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, heard = listening
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret-token")
    entry = queued("brought", host)
    monkeypatch.setenv("XDG_STATE_HOME", "another-machine")  # the branch's author has no key of this one
    assert refused(sent_from(), entry, heard)
    queued("ours", host, Path("own"))
    assert refused(sent_from(), entry, heard), "nor where this machine has a key by now"
    push(Path("own"))
    assert any("secret-token" in line for line in heard), "the control: a run of this machine does send it"


@pytest.mark.parametrize("change", ["address", "record", "files", "another entry's seal", "no JSON", "no seal"])
def test_an_entry_that_was_changed_since_is_nobodys(
    change: str, listening: tuple[str, list[str]], tmp_path: Path
) -> None:
    host, heard = listening
    entry, other = queued("changed", "https://mlflow.example"), queued("other", host, Path("elsewhere"))
    path = entry / "destination.json"
    found = json.loads(path.read_text())
    if change == "address":
        path.write_text(json.dumps(found | {"uri": host}))
    elif change == "record":
        shutil.copyfile(other / "destination.json", path)
        shutil.copyfile(other / "record.json", entry / "record.json")
        (entry / "files" / "report.html").write_text("<script>")
    elif change == "files":
        (entry / "files" / "results.json").write_text("{ }")
    elif change == "another entry's seal":
        shutil.copyfile(other / "destination.json", path)
    elif change == "no JSON":
        path.write_text("[" * 100_000)
    else:
        path.write_text(json.dumps({"uri": host, "complete": True, "seal": None}))
    assert refused(sent_from(), entry, heard)


def test_a_runner_of_ci_is_told_the_address(listening: tuple[str, list[str]], uri: str, tmp_path: Path) -> None:
    host, heard = listening
    entry = queued("runner", host)
    assert refused(sent_from(env={"CI": "true"}), entry, heard)
    named = store("named", uri, tmp_path)
    assert sent_from("--mlflow", named, env={"CI": "true"}).exit_code == 0
    assert pull_request_of(named, "runner") is None


def test_a_strangers_run_is_no_baseline_and_its_pages_are_not_sent(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairgate.tracking import fetch_record

    queued("stranger", "https://mlflow.example")
    monkeypatch.setenv("XDG_STATE_HOME", "another-machine")
    named = store("named", uri, tmp_path)
    done = sent_from("--mlflow", named)
    assert done.exit_code == 0, done.output
    assert "this machine did not queue it" in done.output
    assert pull_request_of(named, "stranger") == "unknown"
    with session(named) as client:
        (run,) = client.search_runs([client.get_experiment_by_name("fairgate/stranger").experiment_id])
        assert [one.path for one in client.list_artifacts(run.info.run_id)] == ["results.json"]
    with pytest.raises(BaselineError, match="no run of"):
        fetch_record("latest", "stranger", named, tmp_path / "got")


@pytest.mark.parametrize("place", ["entry", "record.json", "files/results.json", "files", "destination.json"])
def test_a_link_in_a_queue_is_not_followed(place: str, uri: str, tmp_path: Path) -> None:
    entry = queued("linked", uri)
    path = entry if place == "entry" else entry / place
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    for words in ([], ["--mlflow", uri]):
        done = sent_from(*words)
        assert done.exit_code == 1
        assert "holds a link" in done.output
    assert "linked" not in suites_in(uri)


def test_a_pipe_in_a_queue_is_not_waited_for(uri: str) -> None:
    entry = queued("piped", uri)
    (entry / "record.json").unlink()
    os.mkfifo(entry / "record.json")
    assert "no file" in sent_from("--mlflow", uri).output


def test_without_a_home_a_run_waits_all_the_same(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("no-folder").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", "no-folder")
    outcome = log_or_queue(a_record(suite="homeless"), [], "https://mlflow.example", Path("queue"), outage=OUT)
    assert "with `--mlflow URI`" in outcome.message
    assert sent_from("--mlflow", uri).exit_code == 0


def test_a_silent_server_does_not_hold_back_the_runs_of_another(uri: str, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{probe.getsockname()[1]}"
    for suite in ("first", "second"):
        queued(suite, dead)
    team = store("team", uri, tmp_path)
    queued("third", team)
    by_suite = {result.queued.name.split("-")[1]: result for result in push(Path("queue"))}
    assert by_suite["third"].run_id is not None
    assert "did not answer" in by_suite["first"].message
    assert "not tried" in by_suite["second"].message


def test_off_is_no_address() -> None:
    done = sent_from(env={"FAIRGATE_MLFLOW": "off"})
    assert (done.exit_code, "MLflow is off" in done.output) == (4, True)


def test_no_run_is_sent_to_a_store_that_git_tracks(tmp_path: Path) -> None:
    """The store says where the files of its runs go: to any server, with the login of this environment."""
    (tmp_path / "fairgate.db").write_bytes(b"")
    scratch_git(tmp_path)
    outcome = log_or_queue(a_record(), [], "sqlite:///fairgate.db", Path("queue"))
    assert outcome.queued is not None
    assert "this store is inside of the repository" in outcome.message
    (waiting,) = push(Path("queue"))
    assert "this store is inside of the repository" in waiting.message


def test_a_link_in_place_of_the_queue_leads_no_run_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".fairgate").symlink_to("elsewhere")
    outcome = log_or_queue(a_record(), [], "https://mlflow.example", Path(".fairgate/queue"), outage=OUT)
    assert outcome.queued is None
    assert "a link" in outcome.message
    assert list((tmp_path / "elsewhere").iterdir()) == []
