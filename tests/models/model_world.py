"""Small images and small models, made on the spot, and fixtures of them that a conftest.py imports."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fairgate.models import EmbeddingCache

TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}
PREPROCESS = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "interpolation": "bilinear", "resize_mode": "squash"}
PROMPTS = ["a photo of a doctor", "a photo of a nurse", "a photo of a chef"]


def picture(seed: int, size: tuple[int, int] = (40, 36)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    held = io.BytesIO()
    image.save(held, kind, **options)
    return held.getvalue()


@dataclass
class Pictures:
    """An ImageSource in memory, which counts what it hands out."""

    blobs: list[bytes]
    folder: Path = Path("pictures")
    handed_out: int = 0
    index: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        rows = range(len(self.blobs))
        self.index = SimpleNamespace(
            set_id=np.array([f"{row // 2:04d}" for row in rows], dtype=np.str_),
            member=np.array(["light" if row % 2 else "dark" for row in rows], dtype=np.str_),
            path=np.array([f"val/{row}.png" for row in rows], dtype=np.str_),
        )

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(b"".join(self.blobs)).hexdigest()

    def __len__(self) -> int:
        return len(self.blobs)

    def image_batches(self, batch_size: int) -> Iterator[tuple[np.ndarray, list[bytes]]]:
        for start in range(0, len(self.blobs), batch_size):
            stop = min(start + batch_size, len(self.blobs))
            self.handed_out += stop - start
            yield np.arange(start, stop), self.blobs[start:stop]


def save_local_dir(folder: Path, model: Any) -> Path:
    """A model as open_clip's local-dir."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": TINY, "preprocess_cfg": PREPROCESS}))
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return folder


@pytest.fixture
def pictures() -> Pictures:
    return Pictures([encoded(picture(seed)) for seed in range(10)])


@pytest.fixture
def cache(tmp_path: Path) -> EmbeddingCache:
    return EmbeddingCache(tmp_path / "cache")


@pytest.fixture(scope="session")
def tiny_model() -> Any:
    """A tiny open_clip model with seeded random weights."""
    import open_clip
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return open_clip.model.CLIP(**TINY).eval()


@pytest.fixture
def local_dir(tmp_path: Path, tiny_model: Any) -> Path:
    return save_local_dir(tmp_path / "tiny", tiny_model)


@pytest.fixture(scope="session")
def tiny_arch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the tiny architecture, added to open_clip."""
    import open_clip

    path = tmp_path_factory.mktemp("configs") / "fairgate-tiny.json"
    path.write_text(json.dumps(TINY))
    open_clip.add_model_config(path)
    return path.stem


@pytest.fixture
def sessions_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of onnxruntime in this process: a process of its own takes most of a second to start."""
    from fairgate.models.onnx import host, session

    monkeypatch.setattr(session, "OnnxSession", host.session_here)
