"""Commands of installed packages: found by entry point, imported when they are called, never in place of our own."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import PLUGINS, app


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a command that works, one that cannot be imported, and one with the name of ours."""
    (tmp_path / "team_commands.py").write_text(
        "import typer\ndef greet(name: str) -> None:\n    'Greet somebody.'\n    typer.echo(f'hello {name}')\n"
    )
    metadata = tmp_path / "team-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: team\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[fairgate.commands]\ngreet = team_commands:greet\nbroken = team_commands:nothing\n"
        "check = team_commands:greet\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(PLUGINS, "_found", {})
    monkeypatch.setattr(PLUGINS, "_entries", None)


@pytest.mark.usefixtures("installed")
def test_a_packages_command_runs() -> None:
    result = CliRunner().invoke(app, ["greet", "Ada"])
    assert (result.exit_code, result.output) == (0, "hello Ada\n")


@pytest.mark.usefixtures("installed")
def test_a_command_that_cannot_be_loaded_is_refused_with_its_package() -> None:
    result = CliRunner().invoke(app, ["broken"])
    assert result.exit_code == 4
    assert "the package 'team'" in result.output


@pytest.mark.usefixtures("installed")
def test_no_package_takes_the_name_of_ours() -> None:
    assert "Gate a checkpoint" in CliRunner().invoke(app, ["check", "--help"]).output
