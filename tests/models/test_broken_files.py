"""Files that the fuzzers broke: refused, each by the error of its kind."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from toy_repository import Toy

from fairgate.data import open_dataset
from fairgate.errors import ModelError, ScoresError
from fairgate.models import open_scorer
from fairgate.models.files import require_weights

DAMAGED = Path(__file__).parent / "damaged_codes.parquet"
"""A table with a page of which a byte was changed: a row's code names a text that there is not."""


def test_a_table_whose_codes_name_texts_that_there_are_not_is_refused(toy: Toy) -> None:
    source = open_dataset("toy", toy.root / "datasets")
    with pytest.raises(ScoresError, match=r"cannot be read .*out of bounds"):
        open_scorer(f"scores:{DAMAGED}?values=logit", source)


def test_an_archive_that_spans_several_disks_is_a_damaged_checkpoint(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    whole = buffer.getvalue()
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, 0, 2)  # of two disks
    (tmp_path / "model.pt").write_bytes(whole[:-22] + locator + whole[-22:])
    with pytest.raises(ModelError, match="truncated or damaged"):
        require_weights(tmp_path / "model.pt")
