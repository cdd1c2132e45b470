"""Folders of detectors and tables of boxes: configs and cells from a stranger, weights that are fine."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from world import TESTS, World

KINDS = ("detr", "yolos", "rt_detr", "owlv2")
_CONFIGS = ("config.json", "processor_config.json", "preprocessor_config.json", "tokenizer_config.json")


def folders(world: World) -> dict[str, Path]:
    """One tiny model of each kind, made once."""
    home = world.root / "detectors"
    if not home.exists():
        sys.path.insert(0, str(TESTS / "models"))
        from detector_world import save_detector

        for kind in KINDS:
            save_detector(kind, home / kind)
    return {kind: home / kind for kind in KINDS}


def seeds(world: World) -> list[Any]:
    """All configs of a folder in one JSON object, by file name, with the folder's kind."""
    made = []
    for kind, folder in folders(world).items():
        there = [name for name in _CONFIGS if (folder / name).is_file()]
        made.append({"kind": kind, **{name: json.loads((folder / name).read_text(encoding="utf-8")) for name in there}})
    return made


def use(world: World, data: bytes) -> None:
    """Load the folder and have it look at pictures."""
    from fairgate.models import open_scorer

    try:
        files = json.loads(data)
    except (ValueError, RecursionError):
        files = {}
    files = files if isinstance(files, dict) else {}
    kind = files.get("kind")
    folder = folders(world)[kind if isinstance(kind, str) and kind in KINDS else "detr"]
    for name in _CONFIGS:
        (folder / name).unlink(missing_ok=True)
        if name in files:
            (folder / name).write_text(json.dumps(files[name]), encoding="utf-8", errors="surrogatepass")
    open_scorer(f"detector:{folder}", world.source, device="cpu", cache=None).detect("person")  # type: ignore[attr-defined]


def tables(world: World) -> list[bytes]:
    """A Parquet table of boxes: two of some images, none of others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for number, (set_id, member) in enumerate(zip(world.source.index.set_id, world.source.index.member, strict=True)):
        found = [None] if number % 3 == 0 else [0.9, 0.2]
        for score in found:
            box = dict.fromkeys(("left", "top"), score and 1.0) | dict.fromkeys(("right", "bottom"), score and 5.0)
            label = score and "person"
            rows.append({"set_id": str(set_id), "member": str(member), "label": label, "score": score, **box})
    held = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), held)
    return [held.getvalue()]


def table_of_boxes(name: str) -> Callable[[World, bytes], None]:
    """Read a table of boxes, and look for persons."""

    def use(world: World, data: bytes) -> None:
        from uses import placed

        from fairgate.models import open_scorer

        path = placed(world.root / name, data)
        open_scorer(f"detections:{path}", world.source, cache=None).detect("person")  # type: ignore[attr-defined]

    return use
