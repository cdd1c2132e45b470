"""The three generative models of the embedded world by name: what each is made from, and by what."""

from __future__ import annotations

from pathlib import Path

from fairgate.checkpoints.encoder import versions
from fairgate.errors import ModelError
from fairgate.portraits.generator_vae import Report

MAKERS: dict[str, bool] = {"generator": False, "editor": True, "standins": True}
"""Every model, and whether it needs the generator."""


def make_model(name: str, folder: Path, *, start: Path | None, report: Report) -> None:
    """Train one of MAKERS into `folder`. Raises ModelError when `start` is missing, or given to the generator."""
    if MAKERS[name] != (start is not None):
        raise ModelError(
            f"'{name}' {'is trained with the generator' if MAKERS[name] else 'starts from nothing'}.",
            where=str(start) if start else None,
            remedy="give --from build/portraits/diffusion" if MAKERS[name] else "leave out --from",
        )
    versions("diffusers", "accelerate")  # where they are missing, the error says how to install them
    if start is None:
        from fairgate.portraits.generator import make_generator

        make_generator(folder, report)
    elif name == "editor":
        from fairgate.portraits.editor import make_editor

        make_editor(folder, start, report)
    else:
        from fairgate.portraits.standin_making import make_standins

        make_standins(folder, start, report)
