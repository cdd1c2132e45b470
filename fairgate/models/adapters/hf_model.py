"""The half of the hf adapter that imports transformers: load, encode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import errors as hub_errors
from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel, SiglipModel
from transformers.utils import logging

from fairgate.errors import ModelError
from fairgate.models.device import Device
from fairgate.models.protocols import Embeddings
from fairgate.models.weights import misfit, require_finite, some

# what transformers raises for files that do not fit together
_LOAD_ERRORS = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ImportError),
    *(ArithmeticError, AssertionError, getattr(hub_errors, "StrictDataclassError", OSError)),  # it came with hub 0.33
)
_LOCAL = {"local_files_only": True, "trust_remote_code": False}


class HfEncoder:
    """Both towers of a CLIP or SigLIP of transformers with the folder's own processor and tokenizer."""

    def __init__(self, model: Any, processor: Any, tokenizer: Any, device: Device) -> None:
        self._model, self._processor, self._tokenizer, self._device = model, processor, tokenizer, device.name
        self._length = int(model.config.text_config.max_position_embeddings)
        # SigLIP was trained without a mask, on prompts padded to the full length
        self._masked = model.config.model_type == "clip"
        bias = getattr(model, "logit_bias", None)
        self.scale = float(model.logit_scale.detach().exp())
        self.bias = 0.0 if bias is None else float(bias.detach())

    def prepare(self, image: Any) -> torch.Tensor:
        tensor: torch.Tensor = self._processor(images=image, return_tensors="pt")["pixel_values"][0]
        return tensor

    def encode_images(self, prepared: Sequence[torch.Tensor]) -> Embeddings:
        pixels = torch.stack(list(prepared)).to(self._device)
        return _to_numpy(self._model.get_image_features(pixel_values=pixels))

    def encode_texts(self, prompts: Sequence[str]) -> Embeddings:
        tokens = self._tokenizer(
            list(prompts), padding="max_length", truncation=True, max_length=self._length, return_tensors="pt"
        ).to(self._device)
        mask = {"attention_mask": tokens["attention_mask"]} if self._masked else {}
        return _to_numpy(self._model.get_text_features(input_ids=tokens["input_ids"], **mask))


def _to_numpy(features: Any) -> Embeddings:
    """transformers 5 wraps features in an object, transformers 4 returns the tensor."""
    embeddings = getattr(features, "pooler_output", features)
    return np.asarray(embeddings.float().cpu().numpy(), dtype=np.float32)


def load(folder: Path, model_type: str, device: Device) -> HfEncoder:
    """Load a folder that the adapter has accepted. Raises ModelError: wrong or missing tensors, NaN, broken configs."""
    model_class = {"clip": CLIPModel, "siglip": SiglipModel}[model_type]
    try:
        with _quiet(), torch.random.fork_rng(devices=[]):
            _require_stored(model_class, folder)
            model, report = model_class.from_pretrained(
                folder, use_safetensors=True, ignore_mismatched_sizes=True, output_loading_info=True, **_LOCAL
            )
            processor = AutoImageProcessor.from_pretrained(folder, **_LOCAL)
            tokenizer = AutoTokenizer.from_pretrained(folder, **_LOCAL)
    except _LOAD_ERRORS as error:
        raise ModelError(
            f"transformers could not load the folder ({type(error).__name__}: {error}).",
            where=str(folder),
            remedy="save model, processor and tokenizer into it again with save_pretrained",
        ) from error
    _require_fit(report, str(folder), f"the {model_type} of its config.json")
    require_finite(model.state_dict(), str(folder))
    return HfEncoder(model.float().eval().to(device.name), processor, tokenizer, device)


def _require_stored(model_class: Any, folder: Path) -> None:
    """Raises ModelError for a config that describes more parameters than the folder's weights have bytes.

    transformers would make them up, at any size, before it says that they were missing.
    """
    with torch.device("meta"):
        model = model_class(model_class.config_class.from_pretrained(folder, **_LOCAL))
    described = sum(parameter.numel() for parameter in model.parameters())
    stored = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if described > stored:
        raise misfit(
            f"it has {described:,} parameters, and the weights {stored:,} bytes", str(folder), "its config.json"
        )


def _require_fit(report: dict[str, Any], where: str, architecture: str) -> None:
    """transformers fills what is missing or misshapen with random numbers and goes on; a gate must not."""
    shapes = [
        f"{name} (expected {tuple(expected)}, found {tuple(found)})"
        for name, found, expected in sorted(report["mismatched_keys"])
    ]
    if shapes:
        raise misfit(f"{len(shapes)} tensors have other shapes: {some(shapes, '; ')}", where, architecture)
    for kind in ("missing", "unexpected"):
        names = sorted(report[f"{kind}_keys"])
        if names:
            raise misfit(f"{len(names)} tensors are {kind}: {some(names)}", where, architecture)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no loading report on standard error: what the report says is raised as an error."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
