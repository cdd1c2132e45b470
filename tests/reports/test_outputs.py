"""Outputs: the package's own are all written, and what an installed package adds changes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_records import example_record, fairness_check
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate.ground.errors import FairgateError
from fairgate.interfaces.cli.main import app
from fairgate.reports import OUTPUTS, Output, OutputContext, output_files, read_results, rendered, write_results

CODE = """
import sys
from fairgate.reports import Output
def count(record, context):
    return f"{len(record.checks)} checks\\n".encode()
def change(record, context):
    record.checks.clear()
    return b"changed"
def broken(record, context):
    raise RuntimeError("no room for a chart")
def leave(record, context):
    sys.exit(0)
EVERYWHERE = ("gate", "render", "card", "push")
counted = Output("counted", "counted.txt", EVERYWHERE, count)
changing = Output("changing", "changing.txt", EVERYWHERE, change)
breaking = Output("breaking", "breaking.txt", EVERYWHERE, broken)
leaving = Output("leaving", "leaving.txt", EVERYWHERE, leave)
texts = Output("texts", "texts.txt", EVERYWHERE, lambda record, context: "text")
nothing = Output("nothing", "nothing.txt", EVERYWHERE, lambda record, context: None)
again = Output("again", "counted.txt", EVERYWHERE, lambda record, context: b"again")
page = Output("page_of_others", "report.html", EVERYWHERE, lambda record, context: b"all is well")
"""
GOOD = {"counted": "counted"}
BAD = {
    "changing": "changing",
    "breaking": "breaking",
    "leaving": "leaving",
    "texts": "texts",
    "nothing": "nothing",
    "other_name": "again",
    "page_of_others": "page",
    "missing": "is_not_there",
    "no_output": "count",
}
OWN = ["comment.md", "metrics.json", "report.html", "results.json", "scores.parquet"]
GATE = ["--mlflow", "off", "--cache", "off", "--base", "none"]


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, outputs: dict[str, str], code: str = CODE) -> None:
    """A package with these outputs; the registry forgets what it knew."""
    module = f"team_outputs_{folder.name}"
    metadata = folder / "team-1.0.dist-info"
    metadata.mkdir()
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: team\nVersion: 1.0\n", encoding="utf-8")
    entries = "".join(f"{name} = {module}:{value}\n" for name, value in outputs.items())
    (metadata / "entry_points.txt").write_text(f"[fairgate.outputs]\n{entries}", encoding="utf-8")
    assert OUTPUTS.own()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(OUTPUTS, "_found", dict(OUTPUTS._found))
    monkeypatch.setattr(OUTPUTS, "_entries", None)


def warnings_of(*occasions: str) -> tuple[dict[str, bytes], list[str]]:
    said: list[str] = []
    record = example_record([fairness_check("doctor", 0.5, verdict="fail")])
    return dict(rendered(record, OutputContext(), *occasions, warn=said.append)), said  # type: ignore[arg-type]


def test_no_two_of_the_packages_own_write_one_file() -> None:
    files = [output.file for output in OUTPUTS.own()]
    assert len(set(files)) == len(files)
    assert output_files("gate")[0] == "results.json"
    assert sorted(output_files("gate")) == OWN


@pytest.mark.parametrize("suite_fails", [False, True])
def test_a_failing_output_changes_neither_the_verdict_nor_another_file(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suite_fails: bool
) -> None:
    install(tmp_path, monkeypatch, GOOD | BAD)
    model = ["--model", "scores:biased.csv?values=logit"] if suite_fails else []
    folder = tmp_path / "report"
    ran = CliRunner().invoke(app, ["check", "jobs", "--root", str(toy.root), "--report", str(folder), *GATE, *model])
    assert ran.exit_code == (1 if suite_fails else 0), ran.output
    assert sorted(path.name for path in folder.iterdir()) == ["changing.txt", *OWN[:1], "counted.txt", *OWN[1:]]
    record = read_results(folder / "results.json")
    assert (folder / "counted.txt").read_text() == f"{len(record.checks)} checks\n"
    assert "all is well" not in (folder / "report.html").read_text(encoding="utf-8")
    assert "no room for a chart" in ran.output


def test_each_failure_is_a_warning_that_names_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, GOOD | BAD)
    files, said = warnings_of("push")
    assert set(files) == {"results.json", "comment.md", "counted.txt", "changing.txt"}
    reasons = {
        "breaking": "RuntimeError: no room for a chart",
        "leaving": "SystemExit: 0",
        "texts": "render returned str, not bytes",
        "other_name": "its name is 'again'",
        "page_of_others": "another output writes report.html",
        "missing": "cannot be loaded",
        "no_output": "it is no fairgate.reports.Output",
    }
    for name, reason in reasons.items():
        (warning,) = [text for text in said if f"the output '{name}' is left out" in text]
        assert reason in warning
        assert "the verdict stands" in warning
    assert len(said) == len(reasons)


@pytest.mark.parametrize(
    "file",
    [
        *("../x.txt", "/tmp/x.txt", "a/b.txt", "..", ".hidden.txt", "Results.json", "x", "a\n.txt", "-x.txt", "x."),
        "long" * 60 + ".txt",  # no disk takes it
    ],
)
def test_a_hostile_file_name_is_refused(file: str) -> None:
    with pytest.raises(TypeError, match="no plain name"):
        OUTPUTS._check("hostile", Output("hostile", file, ("gate",), lambda *_: b""))


def test_an_occasion_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="no occasions"):
        OUTPUTS._check("late", Output("late", "late.txt", ("never",), lambda *_: b""))  # type: ignore[arg-type]


def test_the_name_of_an_own_output_costs_the_packages_outputs_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"comment": "counted", "counted": "counted"})
    with pytest.raises(FairgateError, match="has the name of another one"):
        list(OUTPUTS)
    files, said = warnings_of("push")
    assert set(files) == {"results.json", "comment.md"}
    assert files["comment.md"].startswith(b"<!-- fairgate:")
    assert len(said) == 1
    assert "the package 'team'" in said[0]


def test_commands_write_a_packages_output_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, GOOD)
    write_results(example_record([fairness_check("doctor", 0.5, verdict="fail")]), tmp_path / "run")
    for words in (["card", str(tmp_path / "run")], ["report", "render", str(tmp_path / "run")]):
        out = tmp_path / words[0]
        done = CliRunner().invoke(app, [*words, "--out", str(out)])
        assert done.exit_code == 0, done.output
        assert (out / "counted.txt").read_text() == "1 checks\n"


def test_a_run_removes_what_an_output_left_of_an_earlier_one(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, GOOD)
    (tmp_path / "counted.txt").write_text("old", encoding="utf-8")
    words = ["check", "no_such_suite", "--root", str(toy.root), "--report", str(tmp_path)]
    assert CliRunner().invoke(app, words).exit_code == 4
    assert not (tmp_path / "counted.txt").exists()
