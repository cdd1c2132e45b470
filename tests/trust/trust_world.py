"""A pull request's files, as hostile as they come, and what a refusal of them looks like."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toy_repository import Toy
from typer.testing import CliRunner, Result

from fairgate.ground.errors import FairgateError
from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.reports import read_results

TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}
PREPROCESS = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "interpolation": "bilinear", "resize_mode": "squash"}


def check(toy: Toy, *words: str, suite: str = "jobs") -> Result:
    """`fairgate check` as a runner calls it, with the report in `out`."""
    asked = [
        "check",
        suite,
        "--root",
        str(toy.root),
        "--mlflow",
        "off",
        "--cache",
        "off",
        "--report",
        str(toy.root / "out"),
    ]
    return CliRunner().invoke(app, [*asked, *words], env={"CI": "true", "COLUMNS": "200"})


def shut(toy: Toy, result: Result) -> str:
    """The reason of a gate without a verdict: nothing could be computed, exit code 3, and all reports are written."""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 3, result.output
    record: RunRecord = read_results(toy.root / "out" / "results.json")
    assert record.verdict == "error"
    (reason,) = {one.reason for one in record.checks}
    require_three_parts(reason)
    return reason


def refused(result: Result) -> str:
    """What a command said that could not do its work: exit code 4 and the three parts, no traceback."""
    assert result.exit_code == 4, (result.exit_code, result.output, result.exception)
    require_three_parts(result.output)
    return result.output


def require_three_parts(text: str) -> None:
    problem, *others = text.strip().splitlines()
    assert problem.strip()
    assert any(line.startswith("  where:  ") for line in others), text
    assert any(line.startswith("  remedy: ") for line in others), text


def parts_of(error: FairgateError) -> str:
    require_three_parts(str(error))
    return str(error)


class Payload:
    """Creates a folder when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.target),)


def tiny_model() -> Any:
    """A tiny open_clip model with seeded random weights."""
    import open_clip
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return open_clip.model.CLIP(**TINY).eval()


def local_dir(folder: Path, model: Any) -> Path:
    """A model as open_clip's local-dir."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": TINY, "preprocess_cfg": PREPROCESS}))
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return folder


def zip_bomb(path: Path, megabytes: int = 256) -> Path:
    """An archive in the shape of a checkpoint, whose storage unpacks to far more than the file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        archive.writestr("archive/version", "3\n")
        with archive.open("archive/data/0", "w", force_zip64=True) as entry:
            for _ in range(megabytes // 16):
                entry.write(bytes(16 << 20))
    return path


def png_of(width: int, height: int) -> bytes:
    """A PNG of one colour that says it has so many pixels; a few bytes, whatever it says."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    row = zlib.compressobj(9)
    packed = io.BytesIO()
    for _ in range(min(height, 1000)):
        packed.write(row.compress(bytes(1 + (width + 7) // 8)))
    packed.write(row.flush())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed.getvalue()) + chunk(b"IEND", b"")
