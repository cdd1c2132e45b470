"""For a GPU, processes decode: the same numbers and the same errors, and nothing of them is left."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_world import Pictures, encoded, picture
from PIL import Image

from fairgate.ground.errors import DatasetError, DeviceError, ModelError
from fairgate.models import embeddings
from fairgate.models.checkpoints import Device, EightBit, of_chain, of_processor
from fairgate.models.contract import Request

PICTURES = [encoded(picture(seed, (20 + seed, 30)), "JPEG") for seed in range(12)]
SQUASH = {"resize_mode": "squash", "interpolation": "bilinear"}


def chain(**options: str) -> Any:
    """open_clip's transform, whole."""
    import open_clip

    return open_clip.image_transform(24, is_train=False, **options)


def transformers() -> Any:
    """Imported where it is needed: it takes seconds."""
    import transformers

    return transformers


def numbers(blobs: list[bytes], prepare: Any, size: int = 5) -> np.ndarray:
    """Every pixel that the model is given: a row for each image."""
    request = Request("open_clip:tiny", "", Pictures(blobs), "cpu", batch_size=size)
    flat = lambda batch: torch.stack(list(batch)).flatten(1).numpy()  # noqa: E731
    return embeddings.numbers_of_images(lambda: (prepare, flat), lambda raw, _: raw, request, Device("cpu", "fp32"), "")


def shared_files() -> set[Path]:
    """Shared memory of torch that has a name."""
    return set(Path("/dev/shm").glob("torch_*"))


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two processes decode, and must be gone afterwards."""
    monkeypatch.setattr(embeddings, "processes_for", lambda *_: 2)
    before = shared_files()
    yield
    assert not multiprocessing.active_children()
    assert not shared_files() - before


def prepared(blob: bytes, prepare: Any) -> torch.Tensor:
    return prepare(Image.open(io.BytesIO(blob)).convert("RGB"))


@pytest.mark.parametrize("options", [{}, SQUASH, {"resize_mode": "longest"}])
def test_a_transform_in_two_steps_gives_the_same_bits(options: dict[str, str]) -> None:
    whole = chain(**options)
    steps = of_chain(whole)
    assert isinstance(steps, EightBit)
    found = steps.finish(torch.stack([steps.levels(Image.open(io.BytesIO(blob))) for blob in PICTURES]))
    wanted = torch.stack([prepared(blob, whole) for blob in PICTURES])
    assert torch.equal(found, wanted)
    assert found.stride() == wanted.stride()  # a convolution of another layout rounds otherwise


@pytest.mark.parametrize("kind", ["CLIPImageProcessor", "SiglipImageProcessor"])
def test_an_image_processor_in_two_steps_gives_the_same_bits(kind: str) -> None:
    processor = getattr(transformers(), kind)()
    steps = of_processor(processor)
    assert isinstance(steps, EightBit)
    wanted = [
        processor(images=Image.open(io.BytesIO(blob)), return_tensors="pt")["pixel_values"][0] for blob in PICTURES[:4]
    ]
    assert torch.equal(torch.stack([prepared(blob, steps) for blob in PICTURES[:4]]), torch.stack(wanted))


@pytest.mark.parametrize("options", [{}, {"do_resize": False, "do_center_crop": False}])
def test_large_pictures_are_prepared_as_the_processor_does_each_in_memory_of_its_own(options: dict[str, bool]) -> None:
    processor = transformers().CLIPImageProcessor(**options)
    steps = of_processor(processor)
    assert isinstance(steps, EightBit)
    noise = np.random.default_rng(0).integers(0, 256, (2, 2099, 2003, 3), dtype=np.uint8)
    pictures = [Image.fromarray(levels) for levels in noise]
    found = [steps.levels(each) for each in pictures]  # the second one takes the memory of the first
    for one, levels in zip(pictures, found, strict=True):
        wanted = processor(images=one, return_tensors="pt")["pixel_values"]
        finished = steps.finish(levels[None])
        assert torch.equal(finished, wanted)
        assert finished.stride() == wanted.stride()


def test_a_processor_that_scales_otherwise_is_not_split() -> None:
    processor = transformers().EfficientNetImageProcessor(rescale_offset=True)
    assert not isinstance(of_processor(processor), EightBit)
    processor = transformers().CLIPImageProcessor(do_normalize=False)
    assert not isinstance(of_processor(processor), EightBit)


def test_processes_give_the_numbers_of_threads(two_processes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairgate.models.workers._PIECE", 3 * max(map(len, PICTURES)))
    state = torch.get_rng_state()
    found = numbers(PICTURES, of_chain(chain()))
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(found, numbers(PICTURES, chain()))


def test_more_pieces_than_slots_and_images_too_large_for_a_slot_give_them_too(
    two_processes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = numbers(PICTURES, chain())
    monkeypatch.setattr("fairgate.models.workers._PIECE", 1)  # one image
    monkeypatch.setattr("fairgate.models.workers._ENCODED", sorted(map(len, PICTURES))[8])
    np.testing.assert_array_equal(numbers(PICTURES, of_chain(chain()), 12), wanted)


def test_an_error_of_the_code_is_raised_here(two_processes: None) -> None:
    parent = os.getpid()

    def wrong(_: Any) -> torch.Tensor:
        if os.getpid() != parent:
            raise ZeroDivisionError("there")
        return torch.zeros(3, dtype=torch.uint8)

    with pytest.raises(ZeroDivisionError, match="there"):
        numbers(PICTURES, EightBit(wrong, torch.Tensor.float))


def test_a_broken_image_is_named_by_a_process_as_by_a_thread(two_processes: None) -> None:
    broken = [*PICTURES[:7], PICTURES[7][:60], *PICTURES[8:]]
    with pytest.raises(DatasetError) as by_process:
        numbers(broken, of_chain(chain()))
    with pytest.raises(DatasetError) as by_thread:
        numbers(broken, chain())  # not split, so never by processes
    assert str(by_process.value) == str(by_thread.value)
    assert by_process.match(r"val/7.png \(set 0003, member light\)")


def test_a_killed_process_is_an_error(two_processes: None) -> None:
    parent = os.getpid()

    def killed(_: Any) -> torch.Tensor:
        if os.getpid() != parent:  # which decodes the first image, for its size
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(3, dtype=torch.uint8)

    with pytest.raises(DeviceError, match="a process that decodes images ended early") as caught:
        numbers(PICTURES, EightBit(killed, torch.Tensor.float))
    assert "run again" in str(caught.value.remedy)


def test_pictures_of_several_sizes_are_the_models_fault(two_processes: None) -> None:
    sizes = EightBit(lambda image: torch.zeros(image.size, dtype=torch.uint8), torch.Tensor.float)
    with pytest.raises(ModelError, match="prepare pictures in one size"):
        numbers(PICTURES, sizes)


@pytest.mark.parametrize(
    ("device", "images", "cores", "expected"),
    [
        ("cuda", 512, 16, 16),
        ("cuda", 511, 16, 0),
        ("cuda", 512, 3, 0),
        ("cuda:1", 9999, 96, 32),
        ("cpu", 9999, 16, 0),
    ],
)
def test_processes_decode_for_a_gpu_with_enough_images_and_cores(
    device: str, images: int, cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert embeddings.processes_for(Device(device, "fp32"), images) == expected


def test_a_gpu_is_given_the_next_batch_before_the_last_ones_numbers_are_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Device, "is_cuda", property(lambda _: True))
    whole = numbers(PICTURES, chain())
    monkeypatch.undo()
    np.testing.assert_array_equal(whole, numbers(PICTURES, chain()))
