"""`hf:FOLDER_OR_ID[?refiner=...&vae=...&variant=...]`: a Stable Diffusion of diffusers as painter, inpainter, restyler
or editor.

`refiner` names SDXL's second expert, `vae` another VAE than the pipeline's own (paper 3: `stabilityai/sd-vae-ft-mse`),
`variant` the weights' variant ("fp16"). Which pipeline it is, is read from model_index.json.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fairgate.checkpoints.encoder import versions
from fairgate.errors import ModelError
from fairgate.generation.diffusion.files import EDIT, SD, XL, PipelineFiles

if TYPE_CHECKING:
    from fairgate.generation.diffusion.inpaint import DiffusionInpainter
    from fairgate.generation.diffusion.paint import DiffusionEditor, DiffusionPainter, DiffusionRestyler
    from fairgate.generation.diffusion.pipeline import StableDiffusion

_WHOLE = tuple(name for name in (*SD, *XL) if "Inpaint" not in name)


def open_painter(uri: str, address: str, *, device: str, base: Path) -> DiffusionPainter:
    """Text to image: a Stable Diffusion 1.x, 2.x or XL. Raises ModelError, DeviceError."""
    model = _open(uri, address, device, base, _accepting("paint", _WHOLE, (4,), refiners=False))
    from fairgate.generation.diffusion.paint import DiffusionPainter

    return DiffusionPainter(model)


def open_restyler(uri: str, address: str, *, device: str, base: Path) -> DiffusionRestyler:
    """Image to image: a Stable Diffusion 1.x, 2.x, XL or its refiner. Raises ModelError, DeviceError."""
    model = _open(uri, address, device, base, _accepting("restyle", _WHOLE, (4,)))
    from fairgate.generation.diffusion.paint import DiffusionRestyler

    return DiffusionRestyler(model)


def open_inpainter(uri: str, address: str, *, device: str, base: Path) -> DiffusionInpainter:
    """Inpainting: a model made for it (9 channels), or any for text to image (4). Raises ModelError, DeviceError."""
    model = _open(uri, address, device, base, _accepting("inpaint", (*SD, *XL), (4, 9)))
    from fairgate.generation.diffusion.inpaint import DiffusionInpainter

    return DiffusionInpainter(model)


def open_editor(uri: str, address: str, *, device: str, base: Path) -> DiffusionEditor:
    """Edits by instruction: an InstructPix2Pix (8 channels). Raises ModelError, DeviceError."""
    model = _open(uri, address, device, base, _accepting("edit", EDIT, (8,)))
    from fairgate.generation.diffusion.paint import DiffusionEditor

    return DiffusionEditor(model)


def _open(uri: str, address: str, device: str, base: Path, accept: Callable[[PipelineFiles], None]) -> StableDiffusion:
    versions("diffusers", "accelerate")  # where they are missing, the error says how to install them
    from fairgate.generation.diffusion.pipeline import load_stable_diffusion

    return load_stable_diffusion(address, device=device, base=base, uri=uri, accept=accept)


def _accepting(
    what: str, pipelines: tuple[str, ...], channels: tuple[int, ...], refiners: bool = True
) -> Callable[[PipelineFiles], None]:
    """Raises ModelError for a pipeline that cannot do `what`, before anything of it is loaded."""

    def accept(found: PipelineFiles) -> None:
        if found.pipeline in pipelines and found.channels in channels and (refiners or not found.is_refiner):
            return
        kind = "SDXL's refiner" if found.is_refiner else f"a {found.pipeline} with {found.channels} UNet channels"
        raise ModelError(
            f"the model is {kind}, which cannot {what} here.",
            where=str(found.folder / "model_index.json"),
            remedy=f"to {what}, name one of {', '.join(pipelines)} with {' or '.join(map(str, channels))} UNet channels"
            + ("" if refiners else "; a refiner goes with its base: hf:BASE?refiner=REFINER"),
        )

    return accept
