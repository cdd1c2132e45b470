"""Spans of a run: their sums, their trace, and nothing where no recording is on."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate.ground.git import run_git
from fairgate.ground.lazy_face import lazy_face
from fairgate.ground.spans import MOST_EVENTS, recorded, span
from fairgate.interfaces.cli.main import app


def test_a_phase_has_the_time_that_phases_inside_of_it_leave() -> None:
    with recorded() as recording:
        with span("decide"):
            time.sleep(0.01)
            for _ in range(2):
                with span("resample"):
                    time.sleep(0.02)
        with span("resample"):
            time.sleep(0.01)
    sums = recording.phases
    assert (sums["decide"].calls, sums["resample"].calls) == (1, 3)
    assert sums["resample"].seconds >= 0.05
    outer = next(taken for taken in recording.spans if taken.name == "decide")
    assert 0.01 <= sums["decide"].seconds < outer.seconds - 0.04 + 1e-9
    assert sum(phase.seconds for phase in sums.values()) <= recording.seconds


def test_another_thread_has_a_track_and_a_sum_of_its_own() -> None:
    def work() -> None:
        with span("decode"):
            time.sleep(0.01)

    with recorded() as recording, span("forward"):
        thread = threading.Thread(target=work, name="decode_0")
        thread.start()
        thread.join()
    assert recording.phases["decode"].seconds == 0
    assert recording.phases["decode"].elsewhere >= 0.01
    events = json.loads(recording.trace())["traceEvents"]
    tracks = {event["args"]["name"]: event["tid"] for event in events if event["ph"] == "M"}
    assert tracks.keys() == {"MainThread", "decode_0"}
    spans = {event["name"]: event for event in events if event["ph"] == "X"}
    assert (spans["decode"]["tid"], spans["forward"]["tid"]) == (tracks["decode_0"], tracks["MainThread"])
    assert all(event.keys() == {"name", "cat", "ph", "pid", "tid", "ts", "dur"} for event in spans.values())
    assert 0 <= spans["forward"]["ts"] <= spans["decode"]["ts"]
    assert spans["decode"]["dur"] <= spans["forward"]["dur"]


def test_nothing_is_measured_without_a_recording() -> None:
    with recorded() as recording:
        pass
    with span("read"):
        pass
    assert not recording.spans
    assert span("read") is span("decide"), "one object for all of them"


def test_imports_on_first_use_and_calls_of_git_are_phases() -> None:
    import fairgate.models

    load, _ = lazy_face("fairgate.models", str(fairgate.models.__file__))
    with recorded() as recording:
        load("ImageShard")
        run_git(Path(), "version")
    assert {name: phase.calls for name, phase in recording.phases.items()} == {"import": 1, "git": 1}


def test_a_trace_is_bounded_and_the_sums_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_EVENTS == 100_000
    monkeypatch.setattr("fairgate.ground.spans.MOST_EVENTS", 3)
    with recorded() as recording:
        for _ in range(5):
            with span("decode"):
                pass
    assert recording.phases["decode"].calls == 5
    assert len(recording.spans) == 3


def test_a_profile_is_printed_and_written_beside_the_report_and_changes_no_verdict(toy: Toy, tmp_path: Path) -> None:
    words = ["check", "jobs", "--model", "scores:biased.csv?values=logit", "--root", str(toy.root), "--cache", "off"]
    done = CliRunner().invoke(app, [*words, "--mlflow", "off", "--report", str(tmp_path / "out"), "--profile"])
    assert done.exit_code == 1, done.output
    table = done.output.partition("went, after start-up")[2]
    assert all(f"\n{phase} " in table for phase in ("read", "decide", "resample", "render", "other", "in all"))
    trace = json.loads((tmp_path / "out" / "fairgate-trace.json").read_text(encoding="utf-8"))
    assert {event["name"] for event in trace["traceEvents"]} >= {"thread_name", "read", "decide", "resample", "render"}
    (tmp_path / "file").write_text("no folder")
    done = CliRunner().invoke(app, [*words, "--mlflow", "off", "--report", str(tmp_path / "file"), "--profile"])
    assert done.exit_code == 1, done.output
    assert "the trace was not written: " in done.output
