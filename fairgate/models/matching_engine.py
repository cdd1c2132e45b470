"""BLIP's and BLIP-2's networks for matching, in the parts that are computed once: what is seen of a picture, vectors of
pictures and texts, and whether a picture and a text match."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import normalize

from fairgate.models.checkpoints import Device
from fairgate.models.contract import Floats

_AT_ONCE = 64  # texts that are matched with a picture at once


class Network(ABC):
    """`words` is the embedding of tokens. Vectors have length 1."""

    def __init__(self, model: Any) -> None:
        self.model, self.words = model, model.get_input_embeddings()

    def seen(self, pixels: torch.Tensor) -> torch.Tensor:
        """The vision model's states, (images, patches, width)."""
        states: torch.Tensor = self.model.vision_model(pixel_values=pixels).last_hidden_state
        return states

    @abstractmethod
    def picture_vectors(self, seen: torch.Tensor) -> torch.Tensor:
        """(images, vectors of each, dim)."""

    @abstractmethod
    def text_vectors(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(texts, dim)."""

    @abstractmethod
    def match_logits(self, seen: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Logits of no match and of a match, (texts, 2), of one picture's states (1, patches, width) with each text."""


class Blip(Network):
    """As `BlipForImageTextRetrieval.forward`."""

    def picture_vectors(self, seen: torch.Tensor) -> torch.Tensor:
        return normalize(self.model.vision_proj(seen[:, :1]), dim=-1)

    def text_vectors(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.model.text_encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return normalize(self.model.text_proj(states[:, 0]), dim=-1)

    def match_logits(self, seen: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        shown = seen.expand(len(ids), -1, -1)
        every = torch.ones(shown.shape[:2], dtype=torch.long, device=shown.device)
        states = self.model.text_encoder(
            input_ids=ids, attention_mask=mask, encoder_hidden_states=shown, encoder_attention_mask=every
        ).last_hidden_state
        logits: torch.Tensor = self.model.itm_head(states[:, 0])
        return logits


class Blip2(Network):
    """As `Blip2ForImageTextRetrieval.forward`, without the picture's tokens that it cuts off the text again."""

    def _queries(self, seen: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        every = torch.ones(seen.shape[:2], dtype=torch.long, device=seen.device)
        queries = self.model.query_tokens.expand(len(seen), -1, -1)
        return queries, {"encoder_hidden_states": seen, "encoder_attention_mask": every}

    def picture_vectors(self, seen: torch.Tensor) -> torch.Tensor:
        queries, shown = self._queries(seen)
        states = self.model.qformer(query_embeds=queries, **shown).last_hidden_state
        return normalize(self.model.vision_projection(states), dim=-1)

    def text_vectors(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        embedded = self.model.embeddings(input_ids=ids)
        states = self.model.qformer(query_embeds=embedded, query_length=0, attention_mask=mask).last_hidden_state
        return normalize(self.model.text_projection(states[:, 0]), dim=-1)

    def match_logits(self, seen: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        queries, shown = self._queries(seen.expand(len(ids), -1, -1))
        embedded = self.model.embeddings(input_ids=ids, query_embeds=queries)
        both = torch.cat([torch.ones(queries.shape[:2], dtype=mask.dtype, device=mask.device), mask], dim=1)
        states = self.model.qformer(
            query_embeds=embedded, query_length=queries.shape[1], attention_mask=both, **shown
        ).last_hidden_state
        logits: torch.Tensor = self.model.itm_head(states[:, : queries.shape[1]]).mean(dim=1)
        return logits


NETWORKS: Mapping[str, Callable[[Any], Network]] = {"blip": Blip, "blip-2": Blip2}
"""By `model_type` of config.json."""


def prepared(processor: Any, image: Image.Image) -> torch.Tensor:
    """A picture as the vision model takes it, (3, height, width)."""
    pixels: torch.Tensor = processor(images=image, return_tensors="pt")["pixel_values"][0]
    return pixels


class PairMatcher:
    """The log-odds that a picture and a text match, computed for each pair; the picture is seen once."""

    def __init__(
        self, network: Network, processor: Any, read: Callable[[Sequence[str]], Mapping[str, Any]], device: Device
    ) -> None:
        self._network, self._processor, self._read, self._device = network, processor, read, device.name

    def tokens(self, labels: Sequence[str]) -> list[list[int]]:
        """Each text's tokens, followed by which of them are no padding."""
        made = self._read(labels)
        joined: list[list[int]] = torch.cat([made["ids"], made["mask"]], dim=1).tolist()
        return joined

    def inputs(self, shown: Image.Image) -> torch.Tensor:
        """A picture as the vision model takes it, (1, 3, height, width) on its device."""
        return prepared(self._processor, shown)[None].to(self._device)

    def log_likelihoods(self, shown: Sequence[torch.Tensor], labels: Sequence[Sequence[int]]) -> Floats:
        """Log-odds of a match of pictures, given as `inputs`, with texts, given by their tokens: (pictures, labels)
        float64."""
        ids, mask = torch.tensor(labels, device=self._device).chunk(2, dim=1)
        return np.stack([self._odds(self._network.seen(pixels), ids, mask) for pixels in shown])

    def _odds(self, seen: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> Floats:
        parts = [
            self._network.match_logits(seen, ids[start : start + _AT_ONCE], mask[start : start + _AT_ONCE])
            for start in range(0, len(ids), _AT_ONCE)
        ]
        logits = torch.cat(parts).double().cpu().numpy()
        return np.asarray(logits[:, 1] - logits[:, 0])
