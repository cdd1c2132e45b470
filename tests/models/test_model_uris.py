"""Model URIs and devices: known, or refused with the nearest known one."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from model_world import Pictures

from fairgate.ground.errors import DeviceError, ModelError
from fairgate.models import open_scorer, uri_forms
from fairgate.models.checkpoints import device
from fairgate.models.checkpoints.device import Device, find_device
from fairgate.models.registry import FAMILIES


@pytest.mark.parametrize(
    ("uri", "remedy"),
    [
        ("openclip:ViT-B-32@x.pt", "did you mean 'open_clip'"),
        ("score:table.csv", "did you mean 'scores'"),
        ("keras:resnet", "known schemes: open_clip:, hf:, scores:"),
        ("checkpoint.pt", "known schemes"),
        ("", "known schemes"),
        ("hf:", "known schemes"),
    ],
)
def test_an_unknown_scheme_names_the_known_ones(uri: str, remedy: str, pictures: Pictures) -> None:
    with pytest.raises(ModelError) as caught:
        open_scorer(uri, pictures, cache=None)
    assert remedy in str(caught.value.remedy)


def test_a_bare_path_is_told_its_uri_and_never_compared_with_the_schemes(pictures: Pictures, tmp_path: Path) -> None:
    for name in ("biased", "clip"):
        (tmp_path / "ckpt" / name).mkdir(parents=True)
    (tmp_path / "ckpt" / "clip" / "open_clip_config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "tuned.pt").write_bytes(b"")
    wanted = {
        "ckpt/biased": "write `hf:ckpt/biased`",
        "ckpt/clip": "write `open_clip:local-dir:ckpt/clip`",
        "tuned.pt": "a file needs its scheme, such as `open_clip:ARCH@tuned.pt`",
        "debiasd": "known schemes",
        "x" * 5000: "known schemes",
    }
    for path, remedy in wanted.items():
        with pytest.raises(ModelError) as caught:
            open_scorer(path, pictures, cache=None, base=tmp_path)
        assert str(caught.value.remedy).startswith(remedy)


class Theirs:
    """A family of an installed package."""

    scheme = "theirs"
    forms = ("theirs:FILE.json",)


def test_messages_list_the_forms_of_installed_families(monkeypatch: pytest.MonkeyPatch, pictures: Pictures) -> None:
    monkeypatch.setitem(FAMILIES._found, "theirs", Theirs)
    with pytest.raises(ModelError) as caught:
        open_scorer("keras:resnet", pictures, cache=None)
    assert "theirs:FILE.json" in str(caught.value.remedy)


def test_a_family_that_cannot_be_loaded_is_listed_by_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "no_such_package:Family", "fairgate.models")
    monkeypatch.setattr(FAMILIES, "_entries", {"broken": broken})
    assert "broken:..." in uri_forms()


@pytest.mark.parametrize(
    ("asked", "gpus", "found"),
    [
        ("auto", [], Device("cpu", "fp32")),
        ("auto", [9], Device("cuda", "amp_bf16")),
        ("auto", [7], Device("cuda", "amp_fp16")),
        ("cpu", [9], Device("cpu", "fp32")),
        ("cuda", [8], Device("cuda", "amp_bf16")),
        ("cuda:1", [9, 7], Device("cuda:1", "amp_fp16")),
    ],
)
def test_a_device_is_found_with_its_precision(
    asked: str, gpus: list[int], found: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "cuda_generations", lambda: gpus)
    monkeypatch.setattr(device, "torch_is_built_for_cuda", lambda: True)
    assert find_device(asked) == found


@pytest.mark.parametrize("asked", ["cuda", "cuda:0"])
def test_cuda_where_there_is_none_is_an_error(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "cuda_generations", list)
    with pytest.raises(DeviceError, match="--fairness-device cpu"):
        find_device(asked)


def test_a_gpu_that_torch_cannot_use_is_an_error(
    local_dir: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(device, "cuda_generations", lambda: [9])
    monkeypatch.setattr(device, "torch_is_built_for_cuda", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    scorer = open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cuda", cache=None)
    with pytest.raises(DeviceError, match="--fairness-device cpu"):
        scorer.logits(["a photo"])


def test_a_torch_without_cuda_is_not_sent_to_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "cuda_generations", lambda: [9])
    monkeypatch.setattr(device, "torch_is_built_for_cuda", lambda: False)
    assert find_device("auto") == Device("cpu", "fp32")


@pytest.mark.parametrize("asked", ["gpu", "cudaa", "cpu:1", "cuda:first"])
def test_an_unknown_device_is_an_error(asked: str) -> None:
    with pytest.raises(DeviceError, match="use one of auto, cpu, cuda, cuda:N"):
        find_device(asked)


class FakeDriver:
    """Answers as libcuda does, through pointers."""

    def __init__(self, generations: list[int], status: int = 0) -> None:
        self.generations, self.status = generations, status

    def cuInit(self, _: int) -> int:
        return self.status

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.generations)
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, ordinal: int) -> int:
        assert attribute == 75
        value._obj.value = self.generations[ordinal]
        return 0


@pytest.mark.parametrize(("driver", "found"), [(FakeDriver([9, 7]), [9, 7]), (FakeDriver([9], status=100), [])])
def test_the_driver_is_asked_for_its_gpus(
    driver: FakeDriver, found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: driver)
    assert device.cuda_generations() == found


def test_asking_the_machine_itself_agrees_with_torch() -> None:
    import torch

    assert device.torch_is_built_for_cuda() == (torch.version.cuda is not None)
    if torch.version.cuda is not None:
        assert len(device.cuda_generations()) == torch.cuda.device_count()
