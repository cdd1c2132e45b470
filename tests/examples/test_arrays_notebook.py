"""The notebook of arrays runs, names the group that was harmed, and ends with a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

NOTEBOOK = Path(__file__).parents[2] / "examples" / "arrays.ipynb"


def test_the_notebook_goes_from_arrays_to_a_figure_that_shows_who_lost() -> None:
    mpl.use("agg")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert repr(names["run"]) == "Run(arrays: fail, 1 failed, 1 passed)"
    assert names["frame"].index[names["frame"].verdict == "fail"].tolist() == ["female × dark"]
    assert len(names["axes"].get_yticklabels()) == len(names["frame"]) == 4
    names["plt"].close(names["figure"])
