"""`matching:FOLDER?head=itm`: a BLIP or BLIP-2 that was trained to match pictures and texts, by one of its two heads.

`itm` reads picture and text together and says how likely they match; `itc` compares vectors of each. Local files,
safetensors, no code from the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.contract import Capability, Floats, Request, register
from fairgate.models.family import FolderFamily
from fairgate.models.input_digests import folder_preprocessing, folder_tokenizer
from fairgate.models.two_towers import TwoTowers, unit
from fairgate.models.vlm.judged import LabelEngine, LabelLikelihoods

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other numbers for the same files
HEADS = ("itm", "itc")
_CHUNK = 2048  # images whose cosines are computed at once in float64
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
        from fairgate.models.matching_engine import PairMatcher

        model, processor, tokenizer = _loaded(self._found, self._device)
        return PairMatcher(model, processor, partial(_tokens, tokenizer, str(self._found.path)), self._device)


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
    from fairgate.models.matching_engine import prepared

    model, processor, tokenizer = _loaded(folder, device)
    return checkpoints.encoder_of(
        model,
        device,
        vocabulary=int(model.words.num_embeddings),
        prepare=partial(prepared, processor),
        images=lambda pixels: model.picture_vectors(model.seen(pixels)).flatten(1),
        tokens=partial(_tokens, tokenizer, str(folder.path)),
        texts=lambda given: model.text_vectors(given["ids"], given["mask"]),
        scale=1.0,
    )


def _loaded(folder: checkpoints.TransformersFolder, device: checkpoints.Device) -> tuple[Any, Any, Any]:
    """The network behind the engine's interface, its image processor and its tokenizer."""
    from fairgate.models.matching_engine import NETWORKS

    network, processor, tokenizer = checkpoints.load_parts(checkpoints.MATCHERS[folder.kind], folder, device)
    return NETWORKS[folder.kind](network), processor, tokenizer


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
