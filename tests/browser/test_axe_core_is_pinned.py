"""The checker that pages are held to is the one that is pinned, or none."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from axe_core import VERSION, NotFetchedError, WrongContentError, axe_source


def npm_that(folder: Path, does: str) -> str:
    """A program in npm's place. It runs in the folder that the package is packed into."""
    program = folder / "npm"
    program.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{does}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_a_package_of_other_content_is_refused_and_not_kept(tmp_path: Path) -> None:
    npm = npm_that(tmp_path, f"pathlib.Path('axe-core-{VERSION}.tgz').write_bytes(b'something else')")
    cache = tmp_path / "cache"
    with pytest.raises(WrongContentError, match=r"is pinned in axe_core\.py"):
        axe_source(cache, npm)
    assert list(cache.iterdir()) == []


def test_a_package_that_cannot_be_fetched_is_said_to_lack(tmp_path: Path) -> None:
    npm = npm_that(tmp_path, "sys.exit('no registry here')")
    with pytest.raises(NotFetchedError, match="no registry here"):
        axe_source(tmp_path / "cache", npm)
    assert list((tmp_path / "cache").iterdir()) == []
