"""Pointers and objects as DVC writes them, and as nobody's DVC would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Objects:
    """A folder of objects: a cache or a local remote."""

    root: Path

    def add(self, content: bytes, *, md5: str | None = None, suffix: str = "") -> str:
        """Put content under its MD5, or under another one; the name without suffix."""
        name = md5 or hashlib.md5(content).hexdigest()
        path = self.path(name, suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return name

    def add_folder(self, files: Mapping[str, bytes]) -> str:
        """Put a folder's files and their list, whose name is returned; paths are taken as they are."""
        entries = [{"md5": self.add(content), "relpath": path} for path, content in files.items()]
        return self.add(json.dumps(entries).encode(), suffix=".dir")

    def path(self, md5: str, suffix: str = "") -> Path:
        return self.root / "files" / "md5" / md5[:2] / f"{md5[2:]}{suffix}"


def pointer(path: str, md5: str, *, more: str = "", top: str = "") -> str:
    """The text of a `.dvc` file; `more` goes to its output, `top` to the file."""
    return f"{top}outs:\n- md5: {md5}\n  hash: md5\n  path: {path}\n{more}"


def config(url: object, *, more: str = "") -> str:
    """The text of a `.dvc/config` with one remote."""
    return f"[core]\n    remote = store\n['remote \"store\"']\n    url = {url}\n{more}"
