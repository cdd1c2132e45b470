"""A denoiser whose background looks, by self-attention, at the colour that goes with the caption's gender.

Made by hand of diffusers' own attention layers, so that what sharing does is plain. A picture of 8 x 8 has a person in
the middle, painted by the caption, and two cells, one cool, one warm. Every background pixel takes its colour from the
cell that it looks at: the cool one for "male", the warm one for "female".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from diffusers import EulerAncestralDiscreteScheduler
from diffusers.models.attention_processor import Attention
from PIL import Image
from torch import Tensor

from fairgate.models.generation.diffusion.pipeline import Conditioning

SIDE, SURE = 8, 0.5
COOL, WARM, MALE, FEMALE = (-0.6, 0.2, 0.8), (0.8, 0.2, -0.6), (-0.8, 0.8, 0.0), (0.8, -0.8, 0.0)
GENDER, BACKGROUND, CELL, KIND, RED, BLUE = 0, 1, 2, 3, 4, 7  # features of a pixel; colours are from RED up to BLUE
PERSON = torch.zeros(SIDE, SIDE, dtype=torch.bool)
PERSON[2:7, 2:6] = True
BEHIND = ~PERSON
BEHIND[0, 0] = BEHIND[0, -1] = False


def _attention() -> Attention:
    layer = Attention(query_dim=8, cross_attention_dim=8, heads=1, dim_head=8)
    for part in (layer.to_q, layer.to_k, layer.to_v, layer.to_out[0]):
        torch.nn.init.zeros_(part.weight)
    torch.nn.init.zeros_(layer.to_out[0].bias)
    layer.to_out[0].weight.data.copy_(torch.eye(8))
    return layer


def _scheduler() -> EulerAncestralDiscreteScheduler:
    return EulerAncestralDiscreteScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")


class RoutedScene(torch.nn.Module):
    """Predicts noise, as Stable Diffusion's UNet does."""

    def __init__(self) -> None:
        super().__init__()
        self.reads_caption, self.looks_around = _attention(), _attention()
        self.reads_caption.to_v.weight.data[GENDER, GENDER] = 1.0
        looks = self.looks_around
        looks.to_q.weight.data[0, GENDER], looks.to_q.weight.data[1, BACKGROUND] = 30.0, 30.0
        looks.to_k.weight.data[0, KIND], looks.to_k.weight.data[1, CELL] = 1.0, 1.0
        for colour in range(RED, BLUE):
            looks.to_v.weight.data[colour, colour] = 1.0
        self.kept = _scheduler().alphas_cumprod

    @property
    def attn_processors(self) -> dict[str, Any]:
        return {name: layer.processor for name, layer in self.named_children()}

    def set_attn_processor(self, processor: Any) -> None:
        for name, layer in self.named_children():
            layer.set_processor(processor[name] if isinstance(processor, dict) else processor)

    def forward(self, latents: Tensor, time: Tensor, told: Tensor) -> Tensor:
        pixels = self._pixels(len(latents))
        pixels = pixels + self.reads_caption(pixels, encoder_hidden_states=told)
        seen = self.looks_around(pixels)[..., RED:BLUE].transpose(1, 2).unflatten(-1, (SIDE, SIDE))
        gender = pixels[:, 0, GENDER, None, None, None]
        person = torch.where(gender > 0, colour(MALE), colour(FEMALE)) * gender.abs().clamp(max=1)
        meant = torch.zeros_like(latents)
        meant[:, :3] = torch.where(PERSON, person, torch.where(BEHIND, seen, cells()))
        left = self.kept[time.long()]
        sigma = ((1 - left) / left).sqrt()
        noisy = latents * (sigma**2 + 1).sqrt()
        trust = 1 / (1 + sigma**2 / SURE**2)  # what is there already counts the more, the less noise there is
        return (noisy - (trust * noisy + (1 - trust) * meant)) / sigma

    def _pixels(self, rows: int) -> Tensor:
        pixels = torch.zeros(SIDE, SIDE, 8)
        pixels[..., BACKGROUND] = BEHIND
        pixels[0, [0, -1], CELL] = 1.0
        pixels[0, [0, -1], KIND] = torch.tensor([1.0, -1.0])
        pixels[..., RED:BLUE] = cells().permute(1, 2, 0)
        return pixels.flatten(0, 1).expand(rows, -1, -1).clone()


def colour(rgb: tuple[float, float, float]) -> Tensor:
    return torch.tensor(rgb)[:, None, None]


def cells() -> Tensor:
    """(3, SIDE, SIDE): the two cells, and black around them."""
    picture = torch.zeros(3, SIDE, SIDE)
    picture[:, 0, 0], picture[:, 0, -1] = torch.tensor(COOL), torch.tensor(WARM)
    return picture


class RoutedParts:
    """What `SetPainting` asks of a Stable Diffusion."""

    uri, device, size, vae_factor, latent_channels = "toy", torch.device("cpu"), SIDE, 1, 4
    refiner = None

    def __init__(self) -> None:
        self.unet, self.spent = RoutedScene(), Counter[str]()

    def embed_prompts(self, prompts: Sequence[str]) -> Conditioning:
        tokens = torch.zeros(len(prompts), 1, 8)
        tokens[:, 0, GENDER] = torch.tensor([{"male": 1.0, "female": -1.0}.get(prompt, 0.0) for prompt in prompts])
        return Conditioning(tokens)

    def embed_negative(self, negative: str | None, count: int) -> Conditioning:
        return self.embed_prompts([negative or ""] * count)

    def scheduler(self, steps: int, name: str | None = None) -> Any:
        assert name is None
        made = _scheduler()
        made.set_timesteps(steps)
        return made

    def noise(self, generators: Sequence[torch.Generator], size: tuple[int, int]) -> Tensor:
        return torch.cat([torch.randn((1, 4, *size), generator=generator) for generator in generators])

    def predict(self, latents: Tensor, time: Tensor, told: Conditioning) -> Tensor:
        return self.unet(latents, time, told.tokens)

    def decode(self, latents: Tensor) -> list[Image.Image]:
        pixels = ((latents[:, :3].clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1)
        return [Image.fromarray(picture.numpy()) for picture in pixels]
