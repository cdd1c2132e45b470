"""Which module opens which model in which role."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from fairgate.errors import ModelError, did_you_mean
from fairgate.generation.roles import ALIASES, Role, full_uri

# (scheme, role) -> module with a function `open_ROLE(uri, address, *, device, base) -> model`
_DIFFUSION = "fairgate.generation.diffusion.open"
_STAND_INS = "fairgate.portraits.standins"  # floor 5: asked for by name, like any adapter, and never imported here
ADAPTERS: dict[tuple[str, Role], str] = {
    **{("hf", role): _DIFFUSION for role in ("painter", "inpainter", "restyler", "editor")},
    ("hf", "asker"): "fairgate.generation.vilt",
    ("hf", "detector"): "fairgate.generation.grounding_dino",
    ("hf", "segmenter"): "fairgate.generation.sam",
    ("hf", "matcher"): "fairgate.generation.matcher",
    ("open_clip", "matcher"): "fairgate.generation.matcher",
    ("fairface", "face_reader"): "fairgate.generation.fairface",
    **{("portraits", role): _STAND_INS for role in ("asker", "detector", "segmenter", "face_reader")},
}


def open_model(role: Role, uri: str, *, device: str = "cpu", base: Path = Path()) -> Any:
    """The model that a URI names, loaded on a device, in a role. Raises ModelError where it cannot be found or trusted.

    `hf:` names a folder or a hub id, `open_clip:` as the gate does, `fairface:` a checkpoint file, `portraits:` a
    folder of the embedded world's stand-ins. A short name of ALIASES stands for its `hf:` URI, and options may follow
    it (`sdxl?refiner=sdxl-refiner`). There is no fallback.
    """
    full = full_uri(uri)
    scheme, colon, address = full.partition(":")
    if not colon or not address or (scheme, role) not in ADAPTERS:
        known = sorted({f"{known}:" for known, plays in ADAPTERS if plays == role})
        raise ModelError(
            f"'{uri}' does not name a model that can be a {role.replace('_', ' ')}.",
            remedy=" ".join(
                filter(None, [did_you_mean(uri, ALIASES), f"schemes: {', '.join(known)} names: {', '.join(ALIASES)}"])
            ),
        )
    adapter = importlib.import_module(ADAPTERS[scheme, role])
    return getattr(adapter, f"open_{role}")(full, address, device=device, base=base)
