"""`matching:FOLDER?head=itm`: a BLIP or BLIP-2 that was trained to match pictures and texts, by one of its two heads.

`itm` reads picture and text together and says how likely they match; `itc` compares vectors of each. Local files,
safetensors, no code from the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.contract import Capability, Floats, Request, register
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import folder_preprocessing, folder_tokenizer
from fairgate.models.two_towers import TwoTowers, unit
from fairgate.models.vlm.judged import LabelEngine, LabelLikelihoods

if TYPE_CHECKING:
    import torch

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other numbers for the same files
HEADS = ("itm", "itc")
_CHUNK = 2048  # images whose cosines are computed at once in float64
_AT_ONCE = 64  # texts that are matched with a picture at once
LONGEST = 64
"""Tokens of a text: BLIP was trained with 35 at most, BLIP-2 with 32."""


@register
class MatchingFamily(FolderFamily):
    """Folders of transformers' ...ForImageTextRetrieval."""

    scheme: ClassVar[str] = "matching"
    forms: ClassVar[tuple[str, ...]] = ("matching:FOLDER?head=itm", "matching:FOLDER?head=itc")
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities", "similarity"})
    """Of `itm` the first, of `itc` the second."""

    def open(self, request: Request) -> MatchProbabilities | ContrastiveMatcher:
        """Find and hash a folder. Raises ModelError; loading waits until a number is needed."""
        address, options = checkpoints.split_options(request.uri, request.address, ("head", "processor"))
        if options.get("head") not in HEADS:
            raise ModelError(
                "the URI does not say which head judges.",
                where=request.uri,
                remedy=f"write matching:{address}?head=itm (how likely a text matches, for probes of labels) or "
                f"matching:{address}?head=itc (similarity, for searches)",
            )
        found = self.found(request, address, options, checkpoints.MATCHERS)
        if options["head"] == "itm":
            return MatchProbabilities(found, request)
        return ContrastiveMatcher(_checkpoint(found), request)


def _described(folder: checkpoints.TransformersFolder, head: str) -> tuple[str, str, str]:
    """Fingerprint, and the digests of how texts and pictures are read."""
    fingerprint = digest({"files": folder.fingerprint, "head": head})
    return fingerprint, folder_tokenizer(folder, length=LONGEST), folder_preprocessing(folder, "matching")


class MatchProbabilities(LabelLikelihoods):
    """`itm`: how likely a picture and a text match, for each text by itself.

    Such probabilities do not sum to 1 over texts. `log_probabilities` are a softmax of their log-odds: P(text) given
    that exactly one of those listed matches, as of classifiers that were trained with a sigmoid for each label.
    """

    def __init__(self, found: checkpoints.TransformersFolder, request: Request) -> None:
        super().__init__(request, "sum")
        self.fingerprint, self.tokenizer, self.preprocessing = _described(found, "itm")
        self.preparation = f"matching/{CODE_VERSION}"
        self._found = found

    def _load(self) -> LabelEngine:
        return PairMatcher(self._found, self._device)


class ContrastiveMatcher(TwoTowers):
    """`itc`: the cosine of a text to a picture; a BLIP-2 has several vectors of a picture, and the nearest one counts.

    The checkpoint does not hold the temperature of its training, so that there are no probabilities.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"similarity"})

    def _cosines(self, texts: Floats) -> Floats:
        images, dim = self.image_embeddings(), texts.shape[1]
        parts = []
        for start in range(0, len(images), _CHUNK):
            vectors = images[start : start + _CHUNK].astype(np.float64)
            parts.append((unit(vectors.reshape(len(vectors), -1, dim)) @ texts.T).max(axis=1))
        return np.concatenate(parts)


def _checkpoint(folder: checkpoints.TransformersFolder) -> checkpoints.Checkpoint:
    fingerprint, tokenizer, preprocessing = _described(folder, "itc")
    libraries = checkpoints.versions("transformers", "tokenizers", "torch", "torchvision", "pillow")
    identity = {"adapter": "matching", "code": CODE_VERSION, "libraries": libraries}
    return checkpoints.Checkpoint(fingerprint, identity, partial(_towers, folder), tokenizer, preprocessing)


def _towers(folder: checkpoints.TransformersFolder, device: checkpoints.Device) -> checkpoints.Encoder:
    network, prepare, tokens = _loaded(folder, device)
    return checkpoints.encoder_of(
        network.model,
        device,
        vocabulary=int(network.model.get_input_embeddings().num_embeddings),
        prepare=prepare,
        images=lambda pixels: network.picture_vectors(network.seen(pixels)).flatten(1),
        tokens=tokens,
        texts=lambda given: network.text_vectors(given["ids"], given["mask"]),
        scale=1.0,
    )


def _loaded(
    folder: checkpoints.TransformersFolder, device: checkpoints.Device
) -> tuple[_Blip, Callable[[Any], Any], Callable[[Sequence[str]], dict[str, Any]]]:
    """The network, what prepares a picture, and what makes tokens of texts."""
    model, processor, tokenizer = checkpoints.load_parts(checkpoints.MATCHERS[folder.kind], folder, device)
    network = (_Blip2 if folder.kind == "blip-2" else _Blip)(model)
    return network, checkpoints.of_processor(processor), partial(_tokens, tokenizer, str(folder.path))


def _tokens(tokenizer: Any, where: str, texts: Sequence[str]) -> dict[str, Any]:
    """Tokens of texts at one length, and which are no padding. Raises ModelError for a text that is too long."""
    cut = tokenizer(list(texts), padding="max_length", max_length=LONGEST, return_attention_mask=True)
    for text, ids in zip(texts, cut["input_ids"], strict=True):
        if len(ids) > LONGEST:
            raise ModelError(
                f"the text '{text[:80]}' has {len(ids)} tokens, and {LONGEST} is the most that is read.",
                where=where,
                remedy="shorten it: BLIP was trained with 35 tokens at most",
            )
    import torch

    return {"ids": torch.tensor(cut["input_ids"]), "mask": torch.tensor(cut["attention_mask"])}


def _normalized(vectors: torch.Tensor) -> torch.Tensor:
    from torch.nn.functional import normalize

    return normalize(vectors, dim=-1)


class _Blip:
    """A network as `BlipForImageTextRetrieval.forward` computes it, in the parts that are computed once. Vectors have
    length 1."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def seen(self, pixels: torch.Tensor) -> torch.Tensor:
        """The vision model's states, (images, patches, width)."""
        states: torch.Tensor = self.model.vision_model(pixel_values=pixels).last_hidden_state
        return states

    def picture_vectors(self, seen: torch.Tensor) -> torch.Tensor:
        """(images, vectors of each, dim)."""
        return _normalized(self.model.vision_proj(seen[:, :1]))

    def text_vectors(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(texts, dim)."""
        states = self.model.text_encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return _normalized(self.model.text_proj(states[:, 0]))

    def match_logits(self, seen: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Logits of no match and of a match, (texts, 2), of one picture's states (1, patches, width) with each text."""
        shown = seen.expand(len(ids), -1, -1)
        every = shown.new_ones(shown.shape[:2]).long()
        states = self.model.text_encoder(
            input_ids=ids, attention_mask=mask, encoder_hidden_states=shown, encoder_attention_mask=every
        ).last_hidden_state
        logits: torch.Tensor = self.model.itm_head(states[:, 0])
        return logits


class _Blip2(_Blip):
    """As `Blip2ForImageTextRetrieval.forward`, without the picture's tokens that it cuts off the text again."""

    def _queries(self, seen: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        every = seen.new_ones(seen.shape[:2]).long()
        queries = self.model.query_tokens.expand(len(seen), -1, -1)
        return queries, {"encoder_hidden_states": seen, "encoder_attention_mask": every}

    def picture_vectors(self, seen: torch.Tensor) -> torch.Tensor:
        queries, shown = self._queries(seen)
        states = self.model.qformer(query_embeds=queries, **shown).last_hidden_state
        return _normalized(self.model.vision_projection(states))

    def text_vectors(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        embedded = self.model.embeddings(input_ids=ids)
        states = self.model.qformer(query_embeds=embedded, query_length=0, attention_mask=mask).last_hidden_state
        return _normalized(self.model.text_projection(states[:, 0]))

    def match_logits(self, seen: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        import torch

        queries, shown = self._queries(seen.expand(len(ids), -1, -1))
        embedded = self.model.embeddings(input_ids=ids, query_embeds=queries)
        both = torch.cat([mask.new_ones(queries.shape[:2]), mask], dim=1)
        states = self.model.qformer(
            query_embeds=embedded, query_length=queries.shape[1], attention_mask=both, **shown
        ).last_hidden_state
        logits: torch.Tensor = self.model.itm_head(states[:, : queries.shape[1]]).mean(dim=1)
        return logits


class PairMatcher:
    """The log-odds that a picture and a text match, computed for each pair; the picture is seen once."""

    def __init__(self, folder: checkpoints.TransformersFolder, device: checkpoints.Device) -> None:
        self._network, self._prepare, self._read = _loaded(folder, device)
        self._device = device

    def tokens(self, labels: Sequence[str]) -> list[list[int]]:
        """Each text's tokens, followed by which of them are no padding."""
        made = self._read(labels)
        return [[*ids, *mask] for ids, mask in zip(made["ids"].tolist(), made["mask"].tolist(), strict=True)]

    def inputs(self, shown: Any) -> torch.Tensor:
        """A picture as the vision model takes it, (1, 3, height, width) on its device."""
        return checkpoints.on_device([self._prepare(shown)], self._device)

    def log_likelihoods(self, shown: Sequence[torch.Tensor], labels: Sequence[Sequence[int]]) -> Floats:
        """Log-odds of a match of pictures, given as `inputs`, with texts, given by their tokens: (pictures, labels)
        float64."""
        import torch

        ids, mask = torch.tensor(labels, device=self._device.name).chunk(2, dim=1)
        pieces = list(zip(torch.split(ids, _AT_ONCE), torch.split(mask, _AT_ONCE), strict=True))
        seen = [self._network.seen(pixels) for pixels in shown]
        rows = [torch.cat([self._network.match_logits(each, *piece) for piece in pieces]) for each in seen]
        logits = torch.stack(rows).double().cpu().numpy()
        return np.asarray(logits[:, :, 1] - logits[:, :, 0])
