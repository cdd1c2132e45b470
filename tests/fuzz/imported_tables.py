"""Tables that an import reads: Parquet with pictures and classes, archives, JSON Lines, and footers of Parquet."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from world import World

_ROWS = [{"file": "a.png", "gender": "Male", "age": 3}, {"file": "b.png", "gender": "Female", "age": None}]


def parquet(world: World) -> list[bytes]:
    """As `datasets` writes it, and a plain table."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    features = {"gender": {"_type": "ClassLabel", "names": ["Male", "Female"]}, "image": {"_type": "Image"}}
    said = json.dumps({"info": {"features": features}}).encode()
    images = [{"bytes": picture, "path": f"{place}.png"} for place, picture in enumerate(world.pictures[:2])]
    hub = pa.table({"image": images, "gender": [0, 1], "score": [0.5, None]})
    written = []
    for table in (hub.replace_schema_metadata({"huggingface": said}), pa.Table.from_pylist(_ROWS)):
        held = io.BytesIO()
        pq.write_table(table, held)
        written.append(held.getvalue())
    return written


def footers(world: World) -> list[bytes]:
    """Of these files, and of nested columns in several row groups."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    held = io.BytesIO()
    pq.write_table(pa.table({"a": [[["x"]], [None]], "b": [{"c": [1]}, None]}), held, row_group_size=1)
    files = [*parquet(world), held.getvalue()]
    return [data[-8 - int.from_bytes(data[-8:-4], "little") : -8] for data in files]


def use_footer(world: World, data: bytes) -> None:
    """What is accepted can be asked about every column: Arrow ends the process where it cannot."""
    from pyarrow import parquet as pq

    from fairgate.data.labels import reading
    from fairgate.data.parquet_file import require_sound

    path = world.root / "f.parquet"
    path.write_bytes(b"PAR1" + data + len(data).to_bytes(4, "little") + b"PAR1")
    with reading("the footer", path, "a footer"):
        require_sound(path)
    try:
        facts = pq.read_metadata(path)
    except (OSError, ValueError):
        return
    for group in map(facts.row_group, range(facts.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            _ = column.path_in_schema, column.total_uncompressed_size, column.has_dictionary_page


def archives(world: World) -> list[bytes]:
    """One as WebDataset writes them, in each format of tar."""
    written = []
    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w:", format=kind) as archive:
            for place, row in enumerate(_ROWS):
                parts = {"png": world.pictures[0], "json": json.dumps(row).encode(), "txt": b"a nurse", "cls": b"1"}
                for ending, content in parts.items():
                    header = tarfile.TarInfo(f"a/{place}.{ending}")
                    header.size, header.mtime = len(content), 0.5 if kind == tarfile.PAX_FORMAT else 0
                    archive.addfile(header, io.BytesIO(content))
        written.append(held.getvalue())
    return written


def lines(world: World) -> list[Any]:
    return _ROWS


def use(name: str) -> Callable[[World, bytes], None]:
    """Import it; accepted means: the release verifies."""

    def imported(world: World, data: bytes) -> None:
        from imported_photographs import import_images

        from fairgate.data import open_dataset

        root: Path = world.root / "imported"
        shutil.rmtree(root, ignore_errors=True)
        (world.root / name).write_bytes(data)
        import_images(world.root / name, None, "people", attributes=["gender"], subject="person", root=root)
        assert open_dataset("people", root).verify() == [], "what was imported does not verify"

    return imported
