"""Which device a model runs on, found without importing torch so that a cached run stays light."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from dataclasses import dataclass, field
from pathlib import Path

from fairgate.ground.errors import DeviceError

_CAPABILITY_MAJOR = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
_AMPERE = 8  # first generation with bfloat16 units


@dataclass(frozen=True, slots=True)
class Device:
    """Where numbers are computed, and how: `precision` is "fp32" on a CPU, "amp_bf16" or "amp_fp16" on a GPU, where
    some models take "bf16": without float32 between the layers.
    `remedy` is for a GPU that is not there."""

    name: str
    precision: str
    remedy: str = field(default="run with --fairness-device cpu", compare=False)

    @property
    def is_cuda(self) -> bool:
        return self.name.startswith("cuda")


def find_device(name: str | Device) -> Device:
    """Turn "auto", "cpu", "cuda" or "cuda:1" into a device that is there. Raises DeviceError.

    "auto" takes the first GPU when the driver finds one and the installed torch was built for CUDA. A `Device` is
    returned as it is, there or not: cached numbers of another machine need none.
    """
    if isinstance(name, Device):
        return name
    kind, _, ordinal = name.partition(":")
    if kind not in {"auto", "cpu", "cuda"} or (ordinal and (kind != "cuda" or not ordinal.isdigit())):
        raise DeviceError(f"'{name}' is not a device that fairgate knows.", remedy="use one of auto, cpu, cuda, cuda:N")
    if kind == "cpu":
        return Device("cpu", "fp32")
    gpus = cuda_generations() if torch_is_built_for_cuda() else []
    if kind == "auto" and not gpus:
        return Device("cpu", "fp32")
    number = int(ordinal or 0)
    if number >= len(gpus):
        raise no_cuda(Device(name, ""), f"{len(gpus)} CUDA devices are visible to this torch")
    return Device("cuda" if not ordinal else name, "amp_bf16" if gpus[number] >= _AMPERE else "amp_fp16")


def no_cuda(device: Device, reason: str) -> DeviceError:
    """The error for a GPU that is not there."""
    return DeviceError(f"device '{device.name}' is not available: {reason}.", remedy=device.remedy)


def cuda_generations() -> list[int]:
    """Major compute capability of each visible GPU, from the driver (which honours CUDA_VISIBLE_DEVICES)."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    major = ctypes.c_int(0)
    found = []
    for ordinal in range(count.value):
        driver.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, ordinal)
        found.append(major.value)
    return found


def torch_is_built_for_cuda() -> bool:
    """Read from torch/version.py, which names the CUDA version of the build; torch itself is not imported."""
    spec = importlib.util.find_spec("torch")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        version = Path(folder) / "version.py"
        if version.is_file():
            return re.search(r"^cuda\b[^=]*=\s*['\"]", version.read_text(), re.MULTILINE) is not None
    return False
