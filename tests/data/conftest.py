"""A small drawn dataset: sets of a dark and a light, a masculine and a feminine member, each one flat colour."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fairgate.data import Manifest, write_dataset

ATTRIBUTES = {"tone": ["light", "dark"], "gender": ["man", "woman"]}


def draw(colour: tuple[int, int, int], encoding: str = "PNG", size: tuple[int, int] = (8, 8), **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, encoding, **options)
    return buffer.getvalue()


def member_rows(n_sets: int = 6, images: bool = True) -> Iterator[dict[str, Any]]:
    for number in range(n_sets):
        for member, (tone, gender) in enumerate(product(ATTRIBUTES["tone"], ATTRIBUTES["gender"])):
            yield {
                "image": draw((number, member, 7)) if images else None,
                "path": f"{number}/{member}.png",
                "set_id": f"set-{number}",
                "member": str(member),
                "subject": ["doctor", "nurse"][number % 2],
                "caption": f"a {tone} {gender}",
                "tone": tone,
                "gender": gender,
                "seed": number,
                "sharpness": 0.5 * number,
            }


@pytest.fixture
def image() -> Callable[..., bytes]:
    """Encoded image of one colour."""
    return draw


@pytest.fixture
def rows() -> Callable[..., Iterator[dict[str, Any]]]:
    """Rows of the drawn dataset."""
    return member_rows


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Manifest]:
    """`write_dataset` with everything that a test does not speak of already said."""

    def write(folder: Path | None = None, rows: Any = None, **options: Any) -> Manifest:
        said = {
            "name": "people",
            "version": "v1",
            "attributes": ATTRIBUTES,
            "recipe": {"name": "drawn", "seed": 3},
            "licence": "Apache-2.0",
            "counterfactual": True,
        }
        folder = tmp_path / "datasets" / "people" / "v1" if folder is None else folder
        return write_dataset(folder, member_rows() if rows is None else rows, **(said | options))

    return write


@pytest.fixture
def root(tmp_path: Path, write: Callable[..., Manifest]) -> Path:
    """A root of releases that holds people@v1: 6 sets of 4 members in 3 shards."""
    write(shard_bytes=3000)
    return tmp_path / "datasets"
