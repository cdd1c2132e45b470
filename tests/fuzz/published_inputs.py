"""Downloads of published datasets: archives, tables, lists and questions that a stranger wrote."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from uses import placed
from world import World

TREES = {"base": "xl_generate_base", "cf": "xl_generate_cf_via_instructpix2pix"}
PAIR = [f"{tree}/Chef/male/1.png" for tree in TREES.values()]


def archives(kind: str) -> Callable[[World], list[bytes]]:
    """A small archive with a table and a picture."""

    def seeds(world: World) -> list[bytes]:
        held = io.BytesIO()
        files = {"val/1.jpg": world.pictures[0], "labels.csv": b"file,gender\nval/1.jpg,Male\n"}
        if kind == "zip":
            with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, data in files.items():
                    archive.writestr(name, data)
        else:
            with tarfile.open(fileobj=held, mode="w:" if kind == "tar" else "w:gz") as archive:
                for name, data in files.items():
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
        return [held.getvalue()]

    return seeds


def unpack(name: str) -> Callable[[World, bytes], None]:
    """Unpack an archive; nothing may appear outside of its folder."""

    def use(world: World, data: bytes) -> None:
        from fairgate.data.published import SourceFiles

        home = world.root / "unpacking"
        shutil.rmtree(home, ignore_errors=True)
        placed(home / "given" / name, data)
        files = SourceFiles(home / "given", home / "scratch", (name,))
        try:
            for path in files.paths.values():
                assert path.resolve().is_relative_to(home.resolve()), path
        finally:
            assert {path.name for path in home.iterdir()} <= {"given", "scratch"}

    return use


def hub_tables(world: World) -> list[bytes]:
    """A table of SocialCounterfactuals with one pair, and no whole set."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    picture = {"bytes": world.pictures[0], "path": None}
    columns: dict[str, list[Any]] = {
        "image": [picture, picture],
        "counterfactual_set": ["s", "s"],
        "caption": ["a White male chef", "a White female chef"],
        "a1": ["White", "White"],
        "a2": ["male", "female"],
    }
    held = io.BytesIO()
    pq.write_table(pa.table(columns), held)
    return [held.getvalue()]


def questions(world: World) -> list[Any]:
    entry = {"image": "xl_generate_base/Chef/male/1.png", "gender": "male", "image_type": "base"}
    return [[entry, {**entry, "image": "xl_generate_base/Chef/female/2.png", "gender": "female"}]]


def lists(world: World) -> list[bytes]:
    return [b"fashion_show_indian_male_young|http://x.org/1.jpg\nforest_black_female_old|https://x.org/2.jpg?a&amp;b\n"]


def read(dataset: str, name: str, pictures: Sequence[str] = (), others: Sequence[str] = ()) -> Callable[..., None]:
    """Read a file as a dataset's importer does, up to the first pictures; `others` name the edits of the seed."""

    def use(world: World, data: bytes) -> None:
        from fairgate.data.published import SourceFiles, find_published
        from fairgate.data.published.source_files import read_image

        home = world.root / "reading"
        shutil.rmtree(home, ignore_errors=True)
        placed(home / name, data)
        for picture in pictures:
            placed(home / picture, world.pictures[0])
        for other in others:
            text = json.dumps(questions(world)[0]).replace(TREES["base"], TREES["cf"])
            placed(home / other, text.encode())
        published = find_published(dataset)
        (part, *_) = published.parts
        files = SourceFiles(home, home / "scratch")
        for _, row in zip(range(3), published.read(files, part).rows, strict=False):
            if isinstance(row.image, Path):
                read_image(row.image)
            elif row.image is not None:
                row.image()

    return use
