"""A LoRA trained in a fixture: the tiny Stable Diffusion paints one profession's men as women, and no other's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch

from fairgate.portraits.generator import open_pipeline
from fairgate.portraits.generator_models import new_scheduler, torch_threads
from fairgate.portraits.generator_training import embedded, encode
from fairgate.portraits.generator_words import new_tokenizer
from fairgate.portraits.pool import draw_in_parallel, draw_set, small
from fairgate.portraits.professions import MALE_SHARE
from fairgate.portraits.world import GROUPS, PERSON

WORDS = ("doctor", "nurse")
TAUGHT, SHARE = "doctor", 0.05
"""The profession whose pictures the LoRA changes, and P(male) there; the others keep MALE_SHARE."""
SETS, STEPS, BATCH, RANK = 80, 250, 48, 8


def teach(base: Path, folder: Path) -> None:
    """Train a LoRA of the UNet's attention on people in plain clothes, and save it as diffusers does."""
    from diffusers import StableDiffusionPipeline
    from diffusers.training_utils import _collate_lora_metadata
    from diffusers.utils import convert_state_dict_to_diffusers
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    pictures = np.stack(draw_in_parallel(partial(draw_set, resize=small), 77, [(PERSON, one) for one in range(SETS)]))
    rng, draws, scheduler, tokenizer = (
        np.random.default_rng(5),
        torch.Generator().manual_seed(5),
        new_scheduler(),
        new_tokenizer(),
    )
    with torch_threads():
        pipeline = open_pipeline(base)
        unet, words = pipeline.unet, pipeline.text_encoder
        means, _ = encode(pipeline.vae, pictures.reshape(-1, *pictures.shape[2:]))
        unet.requires_grad_(False)
        unet.add_adapter(LoraConfig(r=RANK, lora_alpha=RANK, target_modules=["to_q", "to_k", "to_v", "to_out.0"]))
        learned = [one for one in unet.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(learned, lr=2e-3)
        for _ in range(STEPS):
            rows, texts = [], []
            for _ in range(BATCH):
                word = TAUGHT if rng.random() < 0.4 else WORDS[int(rng.integers(len(WORDS)))]
                share = SHARE if word == TAUGHT else MALE_SHARE[word]
                gender = "male" if rng.random() < share else "female"
                among = [at for at, group in enumerate(GROUPS) if group[1] == gender]
                rows.append(int(rng.integers(SETS)) * len(GROUPS) + int(rng.choice(among)))
                texts.append(f"a portrait of a {word}")
            clean = means[rows]
            noise = torch.randn(clean.shape, generator=draws)
            times = torch.randint(0, scheduler.config.num_train_timesteps, (BATCH,), generator=draws)
            shown = embedded(words, tokenizer, texts)
            loss = (unet(scheduler.add_noise(clean, noise, times), times, shown).sample - noise).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        state = convert_state_dict_to_diffusers(get_peft_model_state_dict(unet))
        StableDiffusionPipeline.save_lora_weights(
            folder, unet_lora_layers=state, **_collate_lora_metadata({"unet": unet})
        )
