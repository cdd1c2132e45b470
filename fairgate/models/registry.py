"""Which adapter answers which model URI. Adapters are imported when they are asked for."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fairgate.checkpoints.files import WEIGHTS
from fairgate.errors import ModelError, did_you_mean
from fairgate.models.contract import ImageSource, Progress, Request, Scorer

if TYPE_CHECKING:
    from fairgate.models.cache import EmbeddingCache

# scheme -> module with a function `scorer(request: Request) -> Scorer`
ADAPTERS = {
    "open_clip": "fairgate.models.open_clip",
    "hf": "fairgate.models.hf",
    "scores": "fairgate.models.scores",
}


def open_scorer(
    uri: str,
    source: ImageSource,
    *,
    device: str = "auto",
    cache: EmbeddingCache | None = None,
    allow_pickle: bool = False,
    base: Path = Path(),
    progress: Progress | None = None,
    batch_size: int | None = None,
) -> Scorer:
    """Find and hash the model that a URI names; load it only when a score is asked that the cache lacks.

    `base` is the folder that relative paths in the URI start from. `progress(done, total)` is called as images are
    embedded; an exception raised in it stops the work, and what is done stays in the cache. Raises ModelError (the
    checkpoint cannot be found, trusted or loaded), ScoresError (`scores:` files) or DeviceError.
    """
    scheme, address = require_uri(uri)
    if allow_pickle and os.environ.get("CI", "").lower() in {"true", "1"}:
        raise ModelError(
            "loading pickled code was allowed, and this run is in CI (CI=true), where it is refused.",
            where=uri,
            remedy="convert the checkpoint to safetensors, or drop --fairness-allow-pickle",
        )
    adapter = importlib.import_module(ADAPTERS[scheme])
    request = Request(uri, address, source, device, cache, allow_pickle, base, progress, batch_size)
    scorer: Scorer = adapter.scorer(request)
    return scorer


def require_uri(uri: str) -> tuple[str, str]:
    """A model URI's scheme and what follows it. Raises ModelError for what is none."""
    scheme, colon, address = uri.partition(":")
    if not colon or scheme not in ADAPTERS:
        raise _unknown_scheme(uri, scheme)
    if not address:
        raise ModelError(f"model '{uri}' names nothing after '{scheme}:'.", remedy=_known_schemes())
    return scheme, address


def local_path(uri: str) -> Path | None:
    """The file or folder that a model URI names, as it is written there; None for a tag or another kind of name.

    >>> local_path("open_clip:ViT-B-32@runs/ckpt.safetensors").as_posix()
    'runs/ckpt.safetensors'
    """
    scheme, _, address = uri.partition(":")
    if scheme == "open_clip" and not address.startswith("local-dir:"):
        address = address.partition("@")[2]
        return Path(address) if "/" in address or Path(address).suffix in WEIGHTS else None
    if scheme not in ADAPTERS or not address:
        return None
    address = address.removeprefix("local-dir:") if scheme == "open_clip" else address
    return Path(address.partition("?")[0] if scheme == "scores" else address)


def _unknown_scheme(uri: str, scheme: str) -> ModelError:
    hint = did_you_mean(scheme, ADAPTERS)
    return ModelError(
        f"'{uri}' is not a model URI that fairgate knows.",
        remedy=f"{hint} {_known_schemes()}" if hint else _known_schemes(),
    )


def _known_schemes() -> str:
    listed = ", ".join(f"{scheme}:" for scheme in ADAPTERS)
    return f"known schemes: {listed} (open_clip:ARCH@FILE, open_clip:local-dir:FOLDER, hf:FOLDER, scores:FILE)"
