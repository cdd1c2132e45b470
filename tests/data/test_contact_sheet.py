"""A contact sheet shows sets of every subject, members side by side, and what cannot be decoded in red."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from fairgate.data import Manifest, UnreadableImage, contact_sheet, read_dataset
from fairgate.data.card import CELL, shown_sets
from fairgate.ground.errors import DatasetError
from fairgate.interfaces.cli.main import app

Rows = Callable[..., Iterator[dict[str, Any]]]


def _at(sheet: Image.Image, row: int, column: int) -> object:
    """The colour of a member's first pixel."""
    return sheet.getpixel((190 + column * (CELL + 6) + 1, 6 + row * (CELL + 6) + 1))


def test_every_subject_has_rows_spread_over_its_sets(
    write: Callable[..., Manifest], tmp_path: Path, rows: Rows
) -> None:
    write(tmp_path / "made", rows(10))
    dataset = read_dataset(tmp_path / "made")
    shown = [("doctor", "set-0"), ("doctor", "set-8"), ("nurse", "set-1"), ("nurse", "set-9")]
    assert shown_sets(dataset, 2) == shown
    assert len(shown_sets(dataset, 99)) == 10
    sheet = contact_sheet(dataset, 2)
    assert [_at(sheet, row, 0) for row in range(4)] == [(0, 0, 7), (8, 0, 7), (1, 0, 7), (9, 0, 7)]
    assert [_at(sheet, 0, column) for column in range(4)] == [(0, member, 7) for member in range(4)]


def test_labels_without_pictures_have_no_sheet(write: Callable[..., Manifest], tmp_path: Path, rows: Rows) -> None:
    write(tmp_path / "made", rows(4, images=False))
    with pytest.raises(DatasetError, match="labels and no images"):
        contact_sheet(read_dataset(tmp_path / "made"))


def test_the_command_writes_a_picture_or_says_why_not(
    write: Callable[..., Manifest], tmp_path: Path, rows: Rows
) -> None:
    write(tmp_path / "made", rows(4))
    run = CliRunner().invoke(app, ["dataset", "sheet", str(tmp_path / "made"), "--out", str(tmp_path / "sheet.png")])
    assert run.exit_code == 0, run.output
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (190 + 4 * (CELL + 6) + 6, 4 * (CELL + 6) + 6)
    for out in (tmp_path, tmp_path / "nowhere" / "sheet.png"):
        run = CliRunner().invoke(app, ["dataset", "sheet", str(tmp_path / "made"), "--out", str(out)])
        assert (run.exit_code, "cannot be written" in run.output) == (4, True)
    assert CliRunner().invoke(app, ["dataset", "sheet", str(tmp_path / "none")]).exit_code == 4


def test_a_picture_that_cannot_be_decoded_is_red(
    write: Callable[..., Manifest], tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(data: bytes) -> Image.Image:
        raise UnreadableImage("cut short")

    write(tmp_path / "made", rows(2))
    monkeypatch.setattr("fairgate.data.card.decode", broken)
    assert _at(contact_sheet(read_dataset(tmp_path / "made")), 0, 0) == (255, 0, 0)
