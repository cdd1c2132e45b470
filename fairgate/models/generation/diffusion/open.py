"""`hf:FOLDER_OR_ID[?refiner=...&vae=...&variant=...]`: a Stable Diffusion of diffusers as painter, inpainter or
editor.

`refiner` names SDXL's second expert, `vae` another VAE than the pipeline's own (paper 3: `stabilityai/sd-vae-ft-mse`),
`variant` the weights' variant ("fp16"). Which pipeline it is, is read from model_index.json.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import versions
from fairgate.models.generation.diffusion.files import EDIT, SD, XL, PipelineAddress, find_pipeline
from fairgate.models.generation.roles import Role

_WHOLE = tuple(name for name in (*SD, *XL) if "Inpaint" not in name)


def _opener(
    role: Role, verb: str, pipelines: tuple[str, ...], channels: tuple[int, ...], *, refiners: bool = True
) -> Callable[..., Any]:
    """The function that opens a pipeline in a role, if it is one of `pipelines` with these UNet channels."""

    def opened(uri: str, address: str, *, device: str, base: Path) -> Any:
        """The role over a loaded pipeline. Raises ModelError, for another one before it is loaded, and DeviceError."""
        versions("diffusers", "accelerate")  # where they are missing, the error says how to install them
        found = find_pipeline(PipelineAddress.of(address, uri), base)
        if found.pipeline not in pipelines or found.channels not in channels or (found.is_refiner and not refiners):
            kind = "SDXL's refiner" if found.is_refiner else f"a {found.pipeline} with {found.channels} UNet channels"
            raise ModelError(
                f"the model is {kind}, which cannot {verb} here.",
                where=str(found.folder / "model_index.json"),
                remedy=f"to {verb}, name one of {', '.join(pipelines)} with {' or '.join(map(str, channels))} UNet "
                "channels" + ("" if refiners else "; a refiner goes with its base: hf:BASE?refiner=REFINER"),
            )
        from fairgate.models.generation.diffusion import inpaint, paint, pipeline

        model = pipeline.load_stable_diffusion(uri, found, device, base)
        classes: dict[Role, type[paint.Diffusing]] = {
            "painter": paint.DiffusionPainter,
            "inpainter": inpaint.DiffusionInpainter,
            "editor": paint.DiffusionEditor,
        }
        return classes[role](model)

    return opened


open_painter = _opener("painter", "paint", _WHOLE, (4,), refiners=False)
# 9 channels: a UNet that was trained for inpainting
open_inpainter = _opener("inpainter", "inpaint", (*SD, *XL), (4, 9))
open_editor = _opener("editor", "edit", EDIT, (8,))
