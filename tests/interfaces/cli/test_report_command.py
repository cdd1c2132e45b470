"""`fairgate report`: what somebody else's report says, rendered again, or refused."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from example_records import HOSTILE, example_record
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.reports import write_results

SHA = "a1" * 20
ROOT = Path(__file__).parents[3]


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["report", *map(str, words)], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def of_pull_request(number: int | None = 7, commit: str = SHA) -> RunRecord:
    record = example_record()
    made = record.environment.model_copy(update={"pull_request": number, "git_commit": commit})
    return record.model_copy(update={"environment": made})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_results(of_pull_request(), tmp_path / "made")
    return tmp_path / "made"


def test_a_whole_record_is_described_whatever_its_verdict(folder: Path) -> None:
    code, said = run("check", folder, "--commit", SHA, "--pull-request", 6, "--pull-request", 7)
    assert code == 0
    assert ": occupations: fail, and 1 check could not be computed (" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--commit", "b2" * 20], f"the record is of commit '{SHA}', not of 'b2b2"),
        (["--pull-request", 8, "--pull-request", 9], "the record is of pull request 7, not of 8 or 9"),
    ],
)
def test_a_record_of_another_run_is_refused(folder: Path, words: list[object], message: str) -> None:
    code, said = run("check", folder, *words)
    assert code == 4
    assert message in said
    assert "remedy: take the report of the run in question" in said


def test_a_record_that_names_no_pull_request_is_of_none(tmp_path: Path) -> None:
    write_results(of_pull_request(None), tmp_path)
    code, said = run("check", tmp_path, "--pull-request", 7)
    assert (code, "the record is of no pull request" in said) == (4, True)


def _verdict(data: dict[str, object]) -> None:
    data["verdict"] = "pass"


def _extra(data: dict[str, object]) -> None:
    data["approved"] = True


def _text(data: dict[str, object]) -> None:
    data["seconds"] = "fast"


@pytest.mark.parametrize("forge", [_verdict, _extra, _text], ids=["verdict", "extra", "text"])
def test_a_forged_record_is_refused_everywhere(
    folder: Path, tmp_path: Path, forge: Callable[[dict[str, object]], None]
) -> None:
    path = folder / "results.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    forge(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    for words in (["check", folder], ["render", folder, "--out", tmp_path / "out"], ["tell", folder]):
        code, said = run(*words)
        assert code == 4, said
        assert "where:" in said
        assert "remedy:" in said
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_record_is_refused(tmp_path: Path) -> None:
    assert run("check", tmp_path)[0] == 4


def test_everything_is_rendered_from_the_record_and_nothing_else_is_believed(folder: Path, tmp_path: Path) -> None:
    for name in ("comment.md", "report.html", "metrics.json", "junit.xml"):
        (folder / name).write_text("all is well", encoding="utf-8")
    (folder / "scores.parquet").write_bytes(b"PAR1")
    out = tmp_path / "out"
    assert run("render", folder, "--out", out, "--report-url", "https://ci.example/run/1#artifacts")[0] == 0
    kept = {path.name: path.read_bytes() for path in out.iterdir()}
    ours = ["comment.md", "metrics.json", "report.html", "results.json", "scores.parquet"]
    assert sorted(kept) == sorted([*ours, "results.sarif", "gl-code-quality-report.json"])
    assert not any(b"all is well" in content for content in kept.values())
    assert kept["results.json"] == (folder / "results.json").read_bytes()
    assert kept["scores.parquet"] == b"PAR1"
    comment = kept["comment.md"].decode()
    assert comment.startswith("<!-- fairgate:occupations -->\n")
    assert "[Full report, with pictures](https://ci.example/run/1#artifacts)" in comment
    for name, finding in (
        ("results.sarif", '"level": "error"'),
        ("gl-code-quality-report.json", '"severity": "major"'),
    ):
        assert finding in kept[name].decode()
        assert "fairness_suites/occupations.yaml" in kept[name].decode()
    assert "<script>" not in comment + kept["report.html"].decode()
    assert HOSTILE not in comment
    assert b"data:image" not in kept["report.html"]


def test_a_report_that_cannot_be_written_says_where(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, said = run("render", folder, "--out", tmp_path / "file")
    assert code == 4
    assert "remedy: name a place in a folder that can be written" in said


def test_a_record_survives_being_packed_and_unpacked(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "results.json", "results.json")
        archive.writestr("comment.md", "all is well")
    code, said = run("unpack", tmp_path / "a.zip", tmp_path / "new")
    assert (code, said.strip()) == (0, f"unpacked {tmp_path / 'new'}; 1 other file(s) stay in the archive")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["results.json"]
    assert (tmp_path / "new" / "results.json").read_bytes() == (folder / "results.json").read_bytes()


def test_a_github_runner_is_told_and_nobody_else(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("tell", folder) == (0, "")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    code, said = run("tell", folder)
    assert code == 0
    assert said.startswith("::error title=occupations ")
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("## ")


def test_a_summary_that_cannot_be_written_is_said_and_changes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    done = CliRunner().invoke(app, ["report", "tell", str(folder)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "the verdict stands" in done.stderr


def test_records_are_read_and_rendered_without_what_models_need(folder: Path, tmp_path: Path) -> None:
    """The workflow that reads reports installs jinja2, pydantic and typer, and no more of what fairgate depends on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {text.split(">")[0].split("[")[0].strip() for text in project["dependencies"]}
    absent = (names - {"jinja2", "pydantic", "typer", "rich"}) | {"open_clip", "yaml", "PIL", "pandas"}
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({sorted(absent)!r}))\n"
        "from fairgate.interfaces.cli.main import app\n"
        f"app(['report', 'check', {str(folder)!r}], standalone_mode=False)\n"
        f"app(['report', 'render', {str(folder)!r}, '--out', {str(tmp_path / 'out')!r}], standalone_mode=False)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "comment.md").is_file()
