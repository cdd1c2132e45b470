"""examples/plugin as an installed package of this process: on the path, with the entry points of its pyproject.toml."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from fairgate.builds.recipes.contract import REGISTERED as RECIPES
from fairgate.data.published import DATASETS
from fairgate.metrics import METRICS
from fairgate.models.registry import FAMILIES
from fairgate.probes import PROBES
from fairgate.reports import OUTPUTS

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"
PACKAGE = "team_fairness"


def entry_points() -> dict[str, dict[str, str]]:
    """The entry points that the example declares, by group and name."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, dict[str, str]] = project["entry-points"]
    return found


def install_example(
    folder: Path, monkeypatch: pytest.MonkeyPatch, entries: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """As pip would leave it in `folder`; `entries` are others than its own, `MODULE:NAME` of the package."""
    lines = [
        line
        for group, named in (entries or entry_points()).items()
        for line in (f"[{group}]", *(f"{name} = {_inside(value)}" for name, value in named.items()))
    ]
    metadata = folder / "team_fairness-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: team-fairness\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / PACKAGE).mkdir()
    for path in (EXAMPLE / PACKAGE).glob("*.py"):
        (folder / PACKAGE / path.name).write_bytes(path.read_bytes())
    monkeypatch.syspath_prepend(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        monkeypatch.delitem(sys.modules, name)
    for registry in (METRICS, PROBES, FAMILIES, RECIPES, DATASETS, OUTPUTS):
        registry.own()
        monkeypatch.setattr(registry, "_found", dict(registry._found))
        monkeypatch.setattr(registry, "_entries", None)


def _inside(value: str) -> str:
    return value if value.startswith(PACKAGE) else f"{PACKAGE}.{value}"
