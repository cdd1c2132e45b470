"""A repository to try things in: the team's own, seen from a scratch folder, with nothing of theirs written to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import yaml

from fairgate import gate
from fairgate.data import Dataset
from fairgate.data.manifest import MANIFEST_FILE
from fairgate.suites.load import FOLDER

_HIDDEN_BUT_NEEDED: Final = (".pytest.ini", ".coveragerc")
_LEFT_OUT: Final = (FOLDER, "datasets", "mlruns", "mlartifacts", "__pycache__")
_CHECKPOINTS: Final = ("model", "baseline", "anchor")
_COPIED: Final = 4 * 2**20
"""Bytes of the largest file that is copied: what pytest writes beside it then never reaches the original."""


def make_view(prepared: gate.Prepared, folder: Path) -> Path:
    """A folder in which pytest finds the team's configuration, conftest files, this suite and its dataset.

    Files are copied; folders, and the shards of the dataset, are linked. The suite is a copy without its checkpoints:
    model and baseline are named on the command line, and an anchor cannot be compared with planted scores. git's folder
    is left out, and so is every store of runs.
    """
    root, loaded = prepared.root, prepared.loaded
    folder.mkdir(parents=True)
    for entry in sorted(root.iterdir()):
        hidden = entry.name.startswith(".") and entry.name not in _HIDDEN_BUT_NEEDED
        if hidden or entry.name in _LEFT_OUT or entry.suffix == ".db":
            continue
        if entry.is_dir():
            (folder / entry.name).symlink_to(entry.resolve(), target_is_directory=True)
        elif entry.is_file() and entry.stat().st_size <= _COPIED:
            shutil.copyfile(entry, folder / entry.name)
    _release(prepared.dataset, folder / "datasets")
    (folder / FOLDER).mkdir()
    if (root / FOLDER / "conftest.py").is_file():
        shutil.copyfile(root / FOLDER / "conftest.py", folder / FOLDER / "conftest.py")
    kept: dict[str, Any] = {key: value for key, value in loaded.source.data.items() if key not in _CHECKPOINTS}
    text = yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)
    (folder / FOLDER / f"{loaded.name}.yaml").write_text(text, encoding="utf-8")
    return folder


def _release(dataset: Dataset, datasets: Path) -> None:
    """A release of its own, which no link leads out of; its shards are links, held against the manifest as ever."""
    target = datasets / dataset.name / dataset.version
    target.mkdir(parents=True)
    shutil.copyfile(dataset.folder / MANIFEST_FILE, target / MANIFEST_FILE)
    for shard in dataset.manifest.shards:
        (target / shard.file).symlink_to((dataset.folder / shard.file).resolve())
