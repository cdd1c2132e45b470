"""`fairgate dataset pull` where there is nothing to pull."""

from __future__ import annotations

from pathlib import Path

import pytest
from scratch_git import scratch_git
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app


@pytest.mark.parametrize("ci", ["true", ""])
def test_a_repository_without_pointers_needs_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str
) -> None:
    scratch_git(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["dataset", "pull"], env={"CI": ci})
    assert done.exit_code == 0, done.output
    assert "DVC tracks nothing here" in done.output
