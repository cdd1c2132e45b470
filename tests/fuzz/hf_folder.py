"""A folder that transformers saved: a CLIP of a few kilobytes with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_PART = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
_VISION = {**_PART, "image_size": 32, "patch_size": 16}
_TEXT = {
    **_PART,
    "vocab_size": 16,
    "max_position_embeddings": 12,
    "bos_token_id": 1,
    "eos_token_id": 15,
    "pad_token_id": 0,
}


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["a", "photo", "of", "doctor", "nurse", "chef"]
    vocabulary = {"[PAD]": 0, "[BOS]": 1, "[UNK]": 2, "[EOS]": 15, **{word: 3 + k for k, word in enumerate(words)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")


def save_folder(folder: Path) -> Path:
    """Write model, processor and tokenizer."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    with torch.random.fork_rng():
        torch.manual_seed(2)
        CLIPModel(CLIPConfig(text_config=_TEXT, vision_config=_VISION, projection_dim=16)).save_pretrained(folder)
    size = {"height": 32, "width": 32}
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size).save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    return folder
