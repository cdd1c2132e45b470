"""Engines by name, with the devices that they use."""

from __future__ import annotations

from fairgate.engines.local import Engine
from fairgate.ground.errors import DeviceError, SettingsError, did_you_mean

ENGINES = ("local", "ray")


def open_engine(name: str = "local", *, workers: int | None = None, device: str = "auto") -> Engine:
    """An engine by name. `workers` defaults to one per GPU where there are GPUs, else one (`ray`: one per core).

    `device` is auto, cpu, cuda or cuda:N. Raises SettingsError for an unknown engine, DeviceError for no such device.
    """
    if name not in ENGINES:
        raise SettingsError(
            f"there is no engine '{name}'.",
            where="--engine",
            remedy=did_you_mean(name, ENGINES) or f"engines: {', '.join(ENGINES)}",
        )
    if workers is not None and workers < 1:
        raise SettingsError("an engine needs at least one worker.", where="--workers", remedy="leave it out, or give 1")
    if name == "ray":
        from fairgate.engines.ray_engine import RayEngine

        return RayEngine(workers=workers, device=device)
    from fairgate.engines.local import LocalEngine

    return LocalEngine(_devices(device, workers))


def _devices(device: str, workers: int | None) -> list[str]:
    """One device per worker: every GPU in turn, or the one that is named."""
    from fairgate.models.checkpoints import cuda_generations, find_device

    found = find_device(device)
    if not found.is_cuda:
        return ["cpu"] * (workers or 1)
    gpus = [found.name] if ":" in found.name else [f"cuda:{number}" for number in range(len(cuda_generations()))]
    if workers is not None and workers > len(gpus):
        raise DeviceError(
            f"{workers} workers need as many GPUs, and {len(gpus)} {'is' if len(gpus) == 1 else 'are'} to be used.",
            where="--workers",
            remedy=f"use --workers {len(gpus)}, or --device cpu",
        )
    return gpus[:workers]
