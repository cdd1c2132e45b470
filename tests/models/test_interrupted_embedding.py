"""Embedding a dataset goes on where it was interrupted, and gets by with the memory there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_world import PROMPTS, Pictures, encoded, picture

from fairgate.ground.errors import DatasetError, DeviceError
from fairgate.models import EmbeddingCache, open_scorer
from fairgate.models.checkpoints import Checkpoint, Device, Encoder, Halving


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each call of the image tower got."""
    sizes: list[int] = []
    original = Checkpoint.open

    def counting(checkpoint: Checkpoint, device: Device, uri: str) -> Encoder:
        encoder = original(checkpoint, device, uri)

        def counted(prepared: Sequence[Any]) -> Any:
            sizes.append(len(prepared))
            return encoder.encode_images(prepared)

        return replace(encoder, encode_images=counted)

    monkeypatch.setattr(Checkpoint, "open", counting)
    return sizes


@pytest.mark.parametrize("again", [2, 3, 10])
def test_an_interrupted_run_continues(
    again: int, local_dir: Path, pictures: Pictures, cache: EmbeddingCache, embedded: list[int]
) -> None:
    uri = f"open_clip:local-dir:{local_dir}"
    undisturbed = open_scorer(uri, pictures, device="cpu", cache=None, batch_size=2).logits(PROMPTS)
    embedded.clear()

    def stop_at_six(done: int, total: int) -> None:
        if done >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_scorer(uri, pictures, device="cpu", cache=cache, batch_size=2, progress=stop_at_six).logits(PROMPTS)
    assert sum(embedded) == 6
    embedded.clear()
    seen: list[tuple[int, int]] = []
    second = open_scorer(
        uri, pictures, device="cpu", cache=cache, batch_size=again, progress=lambda *at: seen.append(at)
    )
    np.testing.assert_allclose(second.logits(PROMPTS), undisturbed, atol=1e-5)
    assert sum(embedded) == 4
    assert (seen[0], seen[-1]) == ((6, 10), (10, 10))
    assert list(cache.below("parts")) == []
    assert not list((cache.folder / "parts").rglob("*.safetensors"))


def test_parts_are_kept_while_the_work_goes_on(
    local_dir: Path, pictures: Pictures, cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairgate.models.family.PART", 4)
    counts: list[int] = []

    def count(done: int, total: int) -> None:
        counts.append(len(list((cache.folder / "parts").rglob("*.safetensors"))))

    uri = f"open_clip:local-dir:{local_dir}"
    open_scorer(uri, pictures, device="cpu", cache=cache, batch_size=2, progress=count).logits(PROMPTS)
    assert counts == [0, 0, 1, 1, 2, 2]


def test_an_unreadable_image_is_named_and_the_work_before_it_kept(
    local_dir: Path, cache: EmbeddingCache, embedded: list[int]
) -> None:
    blobs = [encoded(picture(seed)) for seed in range(6)]
    broken = Pictures([*blobs[:5], blobs[5][:60]])
    uri = f"open_clip:local-dir:{local_dir}"
    for expected in (4, 0):
        embedded.clear()
        with pytest.raises(DatasetError, match=r"val/5.png \(set 0002, member light\)") as caught:
            open_scorer(uri, broken, device="cpu", cache=cache, batch_size=2).logits(PROMPTS)
        assert "fairgate dataset verify" in str(caught.value.remedy)
        assert sum(embedded) == expected


def test_a_source_that_skips_an_image_is_an_error(local_dir: Path, pictures: Pictures) -> None:
    class OneShort(Pictures):
        def image_batches(self, batch_size: int) -> Iterator[tuple[np.ndarray, list[bytes]]]:
            for rows, blobs in super().image_batches(batch_size):
                yield rows[rows != 7], [blob for row, blob in zip(rows, blobs, strict=True) if row != 7]

    source = OneShort(pictures.blobs)
    with pytest.raises(DatasetError, match=r"yielded 9 of its 10 images") as caught:
        open_scorer(f"open_clip:local-dir:{local_dir}", source, device="cpu", cache=None).logits(PROMPTS)
    assert caught.match("val/7.png")


def test_a_batch_that_does_not_fit_is_halved_until_it_does() -> None:
    sizes: list[int] = []

    def encode(items: Sequence[int]) -> np.ndarray:
        sizes.append(len(items))
        if len(items) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return np.array([[item, item] for item in items], dtype=np.float32)

    encode_in_pieces = Halving(encode, "cuda")
    np.testing.assert_array_equal(encode_in_pieces(range(10))[:, 0], range(10))
    assert sizes == [10, 5, 2, 2, 2, 2, 2]
    encode_in_pieces(range(2))
    assert sizes[-1] == 2


def test_a_single_image_that_does_not_fit_is_a_device_error() -> None:
    def encode(items: Sequence[int]) -> np.ndarray:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(DeviceError, match="--fairness-device cpu"):
        Halving(encode, "cuda")(range(4))
