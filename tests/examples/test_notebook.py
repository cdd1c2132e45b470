"""examples/gate.ipynb runs from top to bottom, and shows what it says."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "gate.ipynb"


@pytest.mark.xdist_group("embedded")
@pytest.mark.nightly
def test_every_cell_runs_and_shows_what_the_text_says(monkeypatch: pytest.MonkeyPatch, embedded_cache: Path) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    monkeypatch.setenv("FAIRGATE_CACHE", str(embedded_cache))
    names: dict[str, Any] = {}
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    verdict, failing, run, table = [
        _shown("".join(one["source"]), names) for one in cells if one["cell_type"] == "code"
    ]
    assert verdict == "fail"
    assert {"doctor", "pilot"} >= set(failing.subject) >= {"pilot"}
    assert (failing.delta < 0).all()
    assert "planted" in run._repr_html_() or "test instrument" in run._repr_html_()
    assert set(table.model) == {"base", "tuned", "biased"}
    assert table.value.notna().all()


def _shown(code: str, names: dict[str, Any]) -> Any:
    """What a notebook shows below a cell: the value of its last line."""
    *body, last = ast.parse(code).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
