"""Adapters as peft saves them, with random weights that make a difference."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch


def save_adapter(base: Any, folder: Path, *, spread: float = 0.2, **settings: Any) -> Any:
    """An adapter of a model of transformers, in a folder; returns the model with the adapter in it, not merged.

    `spread` is how far the parameters are moved at random from where peft begins, at which an adapter has no effect.
    """
    from peft import LoraConfig, get_peft_model

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers by a name that the newest one is about to drop
        torch.manual_seed(4)
        adapted: Any = get_peft_model(base, LoraConfig(**{"r": 4, "lora_alpha": 8, **settings}))
        for name, parameter in adapted.named_parameters():
            if parameter.requires_grad and "modules_to_save" not in name:
                parameter.data.add_(torch.randn_like(parameter) * spread)
        adapted.save_pretrained(folder)
    return adapted.eval()
