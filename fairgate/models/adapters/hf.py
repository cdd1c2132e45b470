"""`hf:FOLDER`: a CLIP or SigLIP that transformers saved. Local files, safetensors, and no code from the folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fairgate.models.adapters.transformers_folder import IMAGE_CONFIGS, TransformersFolder, find_folder
from fairgate.models.device import Device
from fairgate.models.embedding_scorer import EmbeddingScorer
from fairgate.models.encoder import Checkpoint, Encoder, versions
from fairgate.models.files import TOKENIZER_FILES, require_folder, resolve
from fairgate.models.protocols import Request
from fairgate.models.reading import preprocessing_digest, tokenizer_digest

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other embeddings for the same files

MODEL_TYPES = ("clip", "siglip")


def scorer(request: Request) -> EmbeddingScorer:
    """Find and hash a folder of transformers. Raises ModelError; loading waits until an embedding is asked for."""
    folder = resolve(request.address, request.base)
    require_folder(folder)
    return EmbeddingScorer(checkpoint(folder), request)


def checkpoint(folder: Path) -> Checkpoint:
    """A CLIP or SigLIP in a folder that `require_folder` has accepted, hashed and not loaded. Raises ModelError."""
    found = find_folder(folder, MODEL_TYPES)
    libraries = versions("transformers", "tokenizers", "torch", "torchvision", "pillow")
    identity = {"adapter": "hf", "code": CODE_VERSION, "libraries": libraries}
    texts = [path for name, path in found.files.paths.items() if name in TOKENIZER_FILES]
    text = found.config.get("text_config")
    length = text.get("max_position_embeddings") if isinstance(text, dict) else None
    tokenizer = tokenizer_digest(texts, kind=found.kind, length=length)
    pictures = [path for name, path in found.files.paths.items() if name in IMAGE_CONFIGS]
    return Checkpoint(
        found.fingerprint, identity, partial(_load, found), tokenizer, preprocessing_digest(pictures, adapter="hf")
    )


def _load(found: TransformersFolder, device: Device) -> Encoder:
    from fairgate.models.adapters.hf_model import load

    found.files.require_unchanged()
    return load(found, device)
