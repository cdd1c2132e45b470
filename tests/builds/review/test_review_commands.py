"""`fairgate review` and `fairgate release` on the command line: a rater works, stops, goes on; then it is released."""

from __future__ import annotations

import json
import shlex
import socket
import threading
import urllib.request
import webbrowser

import pytest
from drawn import rows, write_build
from typer.testing import CliRunner

from fairgate.data import open_dataset
from fairgate.interfaces.cli.main import app


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs a `fairgate` command line in a folder with the build `people`."""
    write_build(tmp_path / "build" / "people", rows(5))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def rater(monkeypatch):
    """A person with a screen, who answers so many items and stops."""
    monkeypatch.setenv("DISPLAY", ":0")

    def works(answers: int):
        def page(url: str, path: str, body: dict | None = None):
            headers = {"Content-Type": "application/json", "Origin": url[: url.index("/", 8)]}
            data = None if body is None else json.dumps(body).encode()
            with urllib.request.urlopen(urllib.request.Request(url + path, data, headers)) as answer:
                return json.load(answer)

        def work(url: str) -> None:
            items = page(url, "state")["items"]
            open_items = [number for number, item in enumerate(items) if not item["complete"]][:answers]
            for number in open_items:
                if items[number]["kind"] == "set":
                    page(url, "mark", {"item": number, "what": "scene", "answer": "same"})
                    continue
                page(url, "mark", {"item": number, "what": "perceived", "answer": {"tone": "dark", "gender": None}})
                page(url, "mark", {"item": number, "what": "quality", "answer": "good"})
            page(url, "stop", {})

        monkeypatch.setattr(webbrowser, "open", lambda url: threading.Thread(target=work, args=(url,)).start())

    return works


def test_a_rater_stops_goes_on_and_the_build_is_released(run, rater, tmp_path):
    rater(8)
    first = run("review", "people", "--sample", "20", "--rater", "ada")
    assert first.exit_code == 0, first.output
    assert "review at http://127.0.0.1:" in first.stdout
    assert "8 of 20 images and 0 of 2 sets are marked" in first.stdout
    assert "go on with: fairgate review people --rater ada --sample 20" in first.stdout
    refused = run("release", "people", "--tolerance", "0.4")
    assert refused.exit_code == 4
    assert "marked 8 images of the build, and a release needs 20" in refused.stderr
    rater(99)
    second = run("review", "people", "--sample", "20", "--rater", "ada")
    assert "20 of 20 images and 2 of 2 sets are marked" in second.stdout
    assert "go on with" not in second.stdout
    figures = run("review", "people", "--figures")
    assert "| cannot discern gender | 20 | 100.0% (83.9 to 100.0) |" in figures.stdout
    done = run("release", "people", "--tolerance", "0.4")
    assert done.exit_code == 0, done.output
    assert "released people@v1" in done.stdout
    assert "reviewed by ada: 20 images, 0.0% (0.0 to 16.1) good" in done.stdout
    assert "dvc add fairness_data && git add fairness_data.dvc reviews" in done.stdout
    again = run("release", "people", "--tolerance", "0.4")
    assert again.exit_code == 4
    assert "released already, as 'people@v1'" in again.stderr
    assert open_dataset("people", tmp_path / "fairness_data").verify() == []


def test_the_commands_that_are_told_go_on_where_the_rater_was(run, rater, tmp_path):
    (tmp_path / "build" / "people").rename(tmp_path / "other people")
    rater(5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ["--sample", "20", "--rater", "ada", "--reviews", "my marks", "--port", port]
    first = run("review", "other people", *options)
    assert "5 of 20 images and 0 of 2 sets are marked" in first.stdout, first.output
    command = shlex.split(first.stdout.partition("go on with: ")[2].splitlines()[0])
    rater(3)
    second = run(*command[1:])
    assert f"review at http://127.0.0.1:{port}/" in second.stdout, second.output
    assert "8 of 20 images and 0 of 2 sets are marked, in my marks/" in second.stdout, second.output
    refused = run("release", "other people", "--reviews", "my marks", "--tolerance", "0.4")
    command = shlex.split(refused.stderr.partition("go on with `")[2].partition("`")[0])
    rater(99)
    assert "20 of 20 images and 2 of 2 sets are marked" in run(*command[1:]).stdout


def test_a_rater_who_stops_at_once_is_no_reviewer(run, rater, tmp_path):
    rater(0)
    assert "0 of 20 images and 0 of 2 sets are marked\n" in run("review", "people", "--sample", "20").stdout
    assert list(tmp_path.glob("reviews/**/*.jsonl")) == []
    assert "nobody reviewed the build" in run("review", "people", "--figures").stderr


def test_a_review_that_cannot_begin_leaves_no_record(run, tmp_path):
    write_build(tmp_path / "build" / "labels", [row | {"image": None} for row in rows(2)])
    assert run("review", "labels").exit_code == 4
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = run("review", "people", "--port", str(taken.getsockname()[1]))
        assert (refused.exit_code, "leave --port out" in refused.stderr) == (4, True)
    assert list(tmp_path.glob("reviews/**/*.jsonl")) == []


def test_a_release_under_another_name_and_without_review(run, tmp_path):
    done = run("release", "people", "crowd", "--unreviewed", "drawn", "--tolerance", "0.4")
    assert done.exit_code == 0, done.output
    assert "released crowd@v1" in done.stdout
    assert "reviews" not in done.stdout
    assert open_dataset("crowd", tmp_path / "fairness_data").manifest.lineage["review"] == "none: drawn"


def test_figures_of_nothing_and_a_build_that_is_not_there_exit_4(run):
    none = run("review", "people", "--figures")
    assert (none.exit_code, "nobody reviewed the build" in none.stderr) == (4, True)
    assert run("review", "nobody").exit_code == 4
    assert run("release", "nobody").exit_code == 4


def test_without_a_screen_the_address_is_printed_and_ctrl_c_keeps_the_marks(run, monkeypatch):
    from fairgate.builds.review import ReviewServer

    def interrupt(server: ReviewServer) -> None:
        raise KeyboardInterrupt

    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ReviewServer, "serve", interrupt)
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("there is no screen"))
    done = run("review", "people", "--sample", "20")
    assert done.exit_code == 0
    assert "0 of 20 images and 0 of 2 sets are marked" in done.stdout
