"""Language models as transformers saves them, tiny, with random weights, and a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from vlm_world import _NO_IDS, _llama, tokenizer


def save_language(kind: str, folder: Path) -> Path:
    """A `llama`, which continues a text, or a `t5`, which has an encoder."""
    import transformers as t

    words = tokenizer("</s>" if kind == "t5" else "")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        if kind == "llama":
            model: Any = t.LlamaForCausalLM(t.LlamaConfig(**_llama(len(words))))
        else:
            sizes = {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}
            config = t.T5Config(vocab_size=len(words), decoder_start_token_id=0, **sizes, **_NO_IDS)
            model = t.T5ForConditionalGeneration(config)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
