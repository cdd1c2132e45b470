"""The tiny CLIP: an open_clip model of about a million parameters, saved as a folder that open_clip itself loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from open_clip import CLIP
from safetensors.torch import load_file, save_file

from fairgate.ground.errors import ModelError
from fairgate.portraits.generator_models import WORDS_APART, seeded
from fairgate.portraits.pool import SIZE
from fairgate.portraits.world import vocabulary

MEAN = STD = (0.5, 0.5, 0.5)
CONTEXT = 16
_SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "[BOS]"}
_END = "[EOS]"


def vocabulary_ids() -> dict[str, int]:
    """Word to id. The end token has the highest id: open_clip reads the text's embedding at the largest one."""
    return {word: index for index, word in enumerate([*_SPECIAL.values(), *vocabulary(), _END])}


def config() -> dict[str, Any]:
    """What open_clip_config.json holds: the architecture and the preprocessing."""
    return {
        "model_cfg": {
            "embed_dim": 64,
            "vision_cfg": {"image_size": SIZE, "patch_size": 8, "width": 128, "layers": 3, "head_width": 32},
            "text_cfg": {
                "context_length": CONTEXT,
                "vocab_size": len(vocabulary_ids()),
                "hf_tokenizer_name": "fairgate-portraits",
                "width": 64,
                "heads": 2,
                "layers": 2,
            },
        },
        "preprocess_cfg": {"size": SIZE, "mode": "RGB", "mean": MEAN, "std": STD, "interpolation": "bicubic"},
    }


def new_model(seed: int) -> CLIP:
    """A model with weights drawn from a seed."""
    with seeded(seed):
        model = CLIP(**config()["model_cfg"])
    with torch.no_grad():
        for embedding in (model.token_embedding.weight, model.positional_embedding):
            embedding.mul_(WORDS_APART)
    return model


def new_tokenizer() -> Any:
    """The word-level tokenizer, as transformers' fast tokenizer."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = vocabulary_ids()
    words = Tokenizer(models.WordLevel(ids, unk_token=_SPECIAL["unk_token"]))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    start = _SPECIAL["bos_token"]
    words.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {_END}", special_tokens=[(start, ids[start]), (_END, ids[_END])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token=_END, **_SPECIAL)


def tokenize(texts: list[str]) -> torch.Tensor:
    """Token ids (texts, CONTEXT) as the saved tokenizer gives them, without building it: for the training loop."""
    ids = vocabulary_ids()
    rows = torch.zeros(len(texts), CONTEXT, dtype=torch.long)
    for row, text in zip(rows, texts, strict=True):
        tokens = [ids["[BOS]"], *(ids.get(word, ids["[UNK]"]) for word in text.lower().split())][: CONTEXT - 1]
        row[: len(tokens) + 1] = torch.tensor([*tokens, ids[_END]])
    return rows


def save(model: CLIP, folder: Path) -> None:
    """Write config, tokenizer and half-precision weights to `folder`, for `open_clip:local-dir:FOLDER`."""
    folder.mkdir(parents=True, exist_ok=True)
    new_tokenizer().save_pretrained(folder)
    (folder / "open_clip_config.json").write_text(json.dumps(config(), indent=2) + "\n")
    weights = {name: value.detach().to(torch.float16).contiguous() for name, value in model.state_dict().items()}
    save_file(weights, folder / "open_clip_model.safetensors")


def load(folder: Path) -> CLIP:
    """The model of a folder that `save` wrote, in float32 and in evaluation mode."""
    weights = folder / "open_clip_model.safetensors"
    if not weights.is_file():
        raise ModelError(
            f"there is no checkpoint of the demonstration data at '{folder}'.",
            where=str(weights),
            remedy="run `dvc pull`, or train it with `fairgate portraits train`",
        )
    model = new_model(0)
    model.load_state_dict(load_file(weights))
    model.eval()
    return model
