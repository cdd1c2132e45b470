"""Names the files of the wheel: the suite of this checkout, and the data that DVC's remote in git has, each by its MD5.

Nothing is pulled and DVC is not needed: `.dvc/remote` is part of every clone.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "fairgate_demo"
CHECKPOINTS = "build/portraits/checkpoints"
TRACKED = {
    "datasets": ("datasets.dvc", "occupations/"),
    **{f"{CHECKPOINTS}/{name}": ("dvc.lock", "") for name in ("base", "tuned", "biased")},
}
"""What DVC tracks, by path: the file that has its MD5, and the part of it that is wanted."""
OWN = {"fairness_suites/occupations.yaml": "..", "README.md": ".", "pytest.ini": "."}


class DemoFiles(BuildHookInterface[Any]):
    """The build hook that hatchling finds in this file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - what hatchling calls
        """Add every file, under the name that it has in a clone."""
        here = Path(self.root)
        files = {name: here / start / name for name, start in OWN.items()}
        for path, (pointers, part) in TRACKED.items():
            files |= tracked(here.parent, path, pointers, part)
        self.staged = tempfile.TemporaryDirectory()  # checkpoints share files, and a file is included once
        for name, file in files.items():
            staged = Path(self.staged.name, name)
            staged.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, staged)
        build_data["force_include"] = {self.staged.name: PACKAGE}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the copies."""
        self.staged.cleanup()


def tracked(repository: Path, path: str, pointers: str, part: str) -> dict[str, Path]:
    """The objects of the files that DVC tracks in a folder, by their names in the repository."""
    text = (repository / pointers).read_text(encoding="utf-8")
    output = rf"outs:\n    - path: {path}\n      hash: md5\n      " if pointers == "dvc.lock" else r"outs:\n- "
    found = re.search(output + r"md5: ([0-9a-f]{32}\.dir)\n", text)
    if found is None:
        raise RuntimeError(f"{pointers} has no MD5 of {path}")
    entries = json.loads(stored(repository, found[1]).read_text(encoding="utf-8"))
    return {
        f"{path}/{one['relpath']}": stored(repository, one["md5"]) for one in entries if one["relpath"].startswith(part)
    }


def stored(repository: Path, md5: str) -> Path:
    """An object of the remote in git, checked."""
    path = repository / ".dvc" / "remote" / "files" / "md5" / md5[:2] / md5[2:]
    if hashlib.md5(path.read_bytes()).hexdigest() != md5.removesuffix(".dir"):  # noqa: S324 - DVC's own name of it
        raise RuntimeError(f"{path} is not what its name says")
    return path
