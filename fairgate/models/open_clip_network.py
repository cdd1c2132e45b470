"""The half of the open_clip adapter that imports it: build and load."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import open_clip
import torch
from open_clip.convert import convert_state_dict
from open_clip.model import convert_to_custom_text_state_dict
from open_clip.pretrained import download_pretrained, get_pretrained_cfg
from open_clip.transform import PreprocessCfg, image_transform_v2

from fairgate.ground.errors import ModelError
from fairgate.models import checkpoints
from fairgate.models.checkpoints import Device, Encoder, StateDict
from fairgate.models.open_clip_parts import Parts


def load(parts: Parts, device: Device) -> Encoder:
    """Build the model of some parts and fill it with exactly the file's weights.

    Raises ModelError: config that does not build, wrong or missing tensors, NaN weights, pickled code.
    """
    weights = parts.files.paths["weights"]
    state = checkpoints.read_state_dict(weights)
    checkpoints.require_finite(state, str(weights))
    draft, _ = _build(parts, device="meta")  # the shapes of a stranger's config, before memory is taken for them
    fitted = _as_open_clip(state, draft, str(weights))
    checkpoints.require_fit(fitted, draft, str(weights), f"the architecture {parts.shown}")
    model, tokenizer = _build(parts)
    model.load_state_dict(fitted)
    model.eval()
    if parts.adapter:
        checkpoints.merge_adapter(model, parts.adapter)
    model.to(device.name)
    settings = model.visual.preprocess_cfg
    transform = image_transform_v2(PreprocessCfg(**settings), is_train=False)
    seen = {name: value for name, value in parts.model.items() if name != "text_cfg"}
    tower = getattr(model, "text", model)
    embedding = getattr(tower, "token_embedding", None) or tower.transformer.get_input_embeddings()
    return checkpoints.encoder_of(
        model,
        device,
        vocabulary=int(embedding.num_embeddings),
        prepare=checkpoints.of_chain(transform),
        images=model.encode_image,
        tokens=lambda prompts: {"ids": tokenizer(list(prompts))},
        texts=lambda given: model.encode_text(given["ids"]),
        words=getattr(tower, "token_embedding", None),
        tower=partial(
            checkpoints.tower_digest, model, lambda name: name.startswith("visual."), {**seen, "pictures": settings}
        ),
    )


def _build(parts: Parts, device: str = "cpu") -> tuple[Any, Any]:
    """The architecture with random weights, and its tokenizer. The caller's random state is left alone.

    On the device "meta" it has shapes and takes no memory.
    """
    with parts.closed() as folder:
        name = f"local-dir:{folder}"
        with (
            checkpoints.naming(parts.shown, "be built by open_clip", name),
            _without_advice(),
            torch.random.fork_rng(devices=[]),
            torch.device(device),
        ):
            model = open_clip.create_model(
                name, device=device, load_weights=False, pretrained_image=False, pretrained_text=False
            )
            return model, open_clip.get_tokenizer(name)


def _as_open_clip(state: StateDict, model: torch.nn.Module, where: str) -> StateDict:
    """The renamings of `open_clip.load_checkpoint`, without its interpolation of positions: other sizes do not fit; and
    without the name of the attribute that held the model in training."""
    state = dict(convert_state_dict(model, checkpoints.without_prefixes(state, where, model.state_dict())))
    if "positional_embedding" in state and not hasattr(model, "positional_embedding"):
        state = convert_to_custom_text_state_dict(state)
    expected = model.state_dict()
    for name in ("logit_scale", "logit_bias"):  # a number, or a vector of one, by version
        if name in state and name in expected and state[name].numel() == 1:
            state[name] = state[name].reshape(expected[name].shape)
    unused = "text.transformer.embeddings.position_ids"  # written by transformers before 4.31
    if unused not in expected:
        state.pop(unused, None)
    return state


def download(architecture: str, tag: str) -> Path:
    """The weights file of a pretrained tag, from the local cache of the hub or the network. Raises ModelError, also for
    a tag of another activation, of which open_clip only warns."""
    settings: dict[str, Any] = get_pretrained_cfg(architecture, tag)
    where = f"open_clip:{architecture}@{tag}"
    if bool(settings.get("quick_gelu")) != bool(open_clip.get_model_config(architecture).get("quick_gelu")):
        other = "QuickGELU" if settings.get("quick_gelu") else "GELU"
        twin = f"{architecture}-quickgelu" if settings.get("quick_gelu") else architecture.removesuffix("-quickgelu")
        raise ModelError(
            f"'{tag}' was trained with {other}, and {architecture} computes with the other one.",
            where=where,
            remedy=f"use open_clip:{twin}@{tag}",
        )
    try:
        return Path(download_pretrained(settings))
    except (OSError, RuntimeError, ValueError) as error:  # no network, no such file, a damaged download
        raise ModelError(
            f"the weights of the tag '{tag}' could not be downloaded ({type(error).__name__}).",
            where=where,
            remedy="check the network, or download the file elsewhere and use open_clip:ARCH@FILE",
        ) from error


@contextlib.contextmanager
def _without_advice() -> Iterator[None]:
    """Mute warnings: open_clip logs that weights are not loaded, which is intended here.

    The handler prevents `logging.warning` from installing one of its own, which would stay for the whole process.
    """
    root, handler = logging.getLogger(), logging.NullHandler()

    def urgent(record: logging.LogRecord) -> bool:  # a filter of its own: two threads may load at once
        return record.levelno > logging.WARNING

    root.addHandler(handler)
    root.addFilter(urgent)
    try:
        yield
    finally:
        root.removeFilter(urgent)
        root.removeHandler(handler)
