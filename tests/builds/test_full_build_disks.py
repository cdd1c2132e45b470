"""A full disk ends a build with a message that says what to do, wherever it is met; with room, the build goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from forge import Forge
from full_disks import full, may_mount, read_only
from nightly import some

pytestmark = [
    pytest.mark.xdist_group("killed-builds"),
    pytest.mark.skipif(not may_mount(), reason="this user may not mount a small disk"),
]

_TWICE = """
from fairgate.interfaces.cli.main import app
try:
    app(["build", "toys"])
except SystemExit as leaving:
    print("the first run ended with", leaving.code)
os.remove({filler!r})
"""


@pytest.mark.faults
@pytest.mark.parametrize("pages", some([0, 3, 12, 30, 50, 70, 90]))
def test_a_full_disk_is_said_and_the_build_goes_on_where_there_is_room(
    pages: int, forge: Forge, folder: Path, undisturbed: str
) -> None:
    build = folder / "build"
    prelude = full(build, free=4096 * pages) + _TWICE.format(filler=str(build / ".filler"))
    ended = forge.run(["build", "toys"], folder, prelude=prelude)
    assert "the first run ended with 4" in ended.output, ended.output
    assert "No space left on device" in ended.output
    assert "remedy: make room" in ended.output
    assert "Traceback" not in ended.output
    assert ended.code == 0, ended.output
    assert ended.fingerprint == undisturbed
    assert ("found)" in ended.output) == (pages > 0)


def test_a_folder_that_may_not_be_written_is_said(forge: Forge, folder: Path) -> None:
    ended = forge.run(["build", "toys"], folder, prelude=read_only(folder / "build"))
    assert ended.code == 4
    assert "the build cannot be written: Read-only file system" in ended.output
    assert "Traceback" not in ended.output
