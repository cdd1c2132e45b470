"""`hf:FOLDER_OR_ID[?refiner=...&vae=...]`: a Stable Diffusion of diffusers as painter, inpainter or
editor.

`refiner` names SDXL's second expert, `vae` another VAE than the pipeline's own (paper 3: `stabilityai/sd-vae-ft-mse`).
Which pipeline it is, is read from model_index.json.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import versions
from fairgate.models.generation.diffusion.files import (
    EDIT,
    INDEX,
    SD,
    XL,
    PipelineAddress,
    PipelineFiles,
    find_pipeline,
)
from fairgate.models.generation.roles import Role

_ROLES: dict[Role, tuple[str, tuple[str, ...], tuple[int, ...]]] = {
    "painter": ("paint", (*SD, *XL), (4,)),
    "inpainter": ("inpaint", (*SD, *XL), (4, 9)),  # 9: a UNet that was trained for inpainting
    "editor": ("edit", EDIT, (8,)),
}
"""What is done in a role, by which pipelines, with how many channels of the UNet."""


def require_role(found: PipelineFiles, role: Role) -> None:
    """Raises ModelError for a pipeline that cannot be used in a role."""
    verb, pipelines, channels = _ROLES[role]
    refiner = role == "painter" and found.is_refiner
    if found.pipeline not in pipelines or found.channels not in channels or refiner:
        raise ModelError(
            f"the model is {found.kind}, which cannot {verb} here.",
            where=str(found.folder / INDEX),
            remedy=f"to {verb}, name one of {', '.join(pipelines)} with {' or '.join(map(str, channels))} UNet channels"
            + ("; in a build, a refiner goes with its base: hf:BASE?refiner=REFINER" if refiner else ""),
        )


def _opened(role: Role, uri: str, address: str, *, device: str, base: Path) -> Any:
    """A role over a loaded pipeline. Raises ModelError, for another one before it is loaded, and DeviceError."""
    versions("diffusers", "accelerate")  # where they are missing, the error says how to install them
    found = find_pipeline(PipelineAddress.of(address, uri), base)
    require_role(found, role)
    from fairgate.models.generation.diffusion import inpaint, paint, pipeline

    model = pipeline.StableDiffusion(found, uri, device)
    classes: dict[Role, type[paint.Diffusing]] = {
        "painter": paint.DiffusionPainter,
        "inpainter": inpaint.DiffusionInpainter,
        "editor": paint.DiffusionEditor,
    }
    return classes[role](model)


open_painter, open_inpainter, open_editor = (partial(_opened, role) for role in _ROLES)
