"""Scores of a two-tower model, from embeddings that are computed once and cached by content."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.ground.spans import span
from fairgate.models.checkpoints import Checkpoint, Device, Embeddings, Encoder, diverged
from fairgate.models.contract import Capability, Floats, Model, Request, RereadingModel, log_softmax
from fairgate.models.family import JudgedModel
from fairgate.models.known_images import KnownImages

_CHUNK = 8_192  # images whose cosines are computed at once in float64
_PAIRED = 256  # texts that are compared with all others at once

SAME_TEXT = {"fp32": 64 * 2.0**-23, "amp_fp16": 4 * 2.0**-11, "amp_bf16": 4 * 2.0**-8}
"""Distance of unit text embeddings below which two prompts may be one: equal tokens differ by rounding alone, which is
the order of sums in float32, and a handful of roundings of the last layer's output under autocast."""


class TwoTowers(JudgedModel[Encoder]):
    """A judged model over a checkpoint that is loaded only when an embedding is not in the cache."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"log_probabilities", "similarity"})

    def __init__(self, checkpoint: Checkpoint, request: Request, note: str | None = None) -> None:
        super().__init__(request, note=note)
        self.fingerprint, self.preparation = checkpoint.fingerprint, checkpoint.preparation
        self.tokenizer, self.preprocessing = checkpoint.tokenizer, checkpoint.preprocessing
        self.checkpoint = checkpoint
        self._images: Embeddings | None = None
        self._scale_and_bias: tuple[float, float] | None = None
        self._texts: dict[str, dict[str, Embeddings]] = {}  # by precision

    @property
    def logit_scale(self) -> float | None:
        """What multiplies cosines; None before images were embedded."""
        return self._scale_and_bias and self._scale_and_bias[0]

    def logits(self, prompts: Sequence[str]) -> Floats:
        """Scale times cosine, plus the model's bias: (images, prompts) float64."""
        cosines = self._cosines(unit(self.text_embeddings(prompts).astype(np.float64)))
        assert self._scale_and_bias
        return self._scale_and_bias[0] * cosines + self._scale_and_bias[1]

    def similarity(self, ensembles: Sequence[Sequence[str]]) -> Floats:
        """Cosine to the re-normalised average of each ensemble's unit text embeddings: (images, ensembles) float64."""
        return self._cosines(self._queries(ensembles))

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """Pairs of ensembles whose averaged text embeddings are equal, up to the rounding of float32.

        Half precision only selects the candidates: texts that differ by less than its rounding are embedded again.
        """
        pairs = near_pairs(self._queries(ensembles), ensembles, SAME_TEXT[self.precision])
        if not pairs or self.precision == "fp32":
            return pairs
        chosen = sorted({place for pair in pairs for place in pair})
        exact = self._queries([ensembles[place] for place in chosen], replace(self._device, precision="fp32"))
        again = near_pairs(exact, [ensembles[place] for place in chosen], SAME_TEXT["fp32"])
        return [(chosen[one], chosen[other]) for one, other in again]

    def _queries(self, ensembles: Sequence[Sequence[str]], device: Device | None = None) -> Floats:
        """Unit averages of the ensembles' text embeddings, (ensembles, dim) float64."""
        every = list(dict.fromkeys(prompt for prompts in ensembles for prompt in prompts))
        vectors = dict(zip(every, unit(self.text_embeddings(every, device).astype(np.float64)), strict=True))
        return averages(ensembles, vectors, self.uri)

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax of the logits over exactly these prompts: (images, prompts) float64."""
        return log_softmax(self.logits(prompts))

    def image_embeddings(self) -> Embeddings:
        """Unit embeddings of all images, (images, dim) float32, from the cache or the model."""
        if self._images is not None:
            return self._images
        embedder = self.checkpoint.images_of or self.checkpoint
        key = embedder.key(self._device, dataset=self._request.source.fingerprint)
        cache = self._request.cache
        entry = cache.read(f"images/{key}") if cache else None
        if entry is not None and {"embeddings", "scale", "bias"} <= entry.arrays.keys():
            self._images = entry.arrays["embeddings"]
            self._scale_and_bias = float(entry.arrays["scale"][0]), float(entry.arrays["bias"][0])
            return self._images
        with span("import"):
            from fairgate.models.checkpoints import unit_or_error
            from fairgate.models.embeddings import numbers_of_images

        def loaded() -> tuple[Any, Any]:
            encoder = self._engine()
            return encoder.prepare, encoder.encode_images

        scaling = self._scaling(f"scales/{key}")
        known = KnownImages(self._request, f"images/{key}", self._alike(embedder), "embeddings") if cache else None
        self._images = numbers_of_images(loaded, unit_or_error, self._request, self._device, f"parts/{key}", known)
        self._scale_and_bias = float(scaling["scale"][0]), float(scaling["bias"][0])
        if cache:
            cache.write(f"images/{key}", {"embeddings": self._images, **scaling})
            cache.drop_all(f"parts/{key}")
            cache.drop_all(f"scales/{key}")
        return self._images

    def _alike(self, embedder: Checkpoint) -> str:
        """What decides the embedding of a picture: the image tower, so that a checkpoint with another text tower embeds
        none again. The whole checkpoint if the adapter cannot tell the tower from the rest, and if the model is not
        loaded, as where parts of several jobs are merged."""
        tower = self._network.image_tower if self._network else None
        if tower is None:
            return embedder.key(self._device)
        reads = {"identity": dict(embedder.identity), "preprocessing": embedder.preprocessing}
        return digest({"tower": tower(), "precision": self._device.precision, **reads})

    def _scaling(self, name: str) -> dict[str, Any]:
        """The model's scale and bias, (1,) each, cached below a name until the embeddings are complete.

        In float32, as the cache gives them back: the first run and the second say the same.
        """
        cache = self._request.cache
        if cache and (entry := cache.read(f"{name}/scale")) is not None and {"scale", "bias"} <= entry.arrays.keys():
            return entry.arrays
        encoder = self._engine()
        arrays = {part: np.array([getattr(encoder, part)], dtype=np.float32) for part in ("scale", "bias")}
        if not np.isfinite([*arrays.values()]).all():
            raise diverged("the model's scale or bias of its logits is NaN or infinite.", self.uri)
        if cache:
            cache.write(f"{name}/scale", arrays)
        return arrays

    def text_embeddings(self, prompts: Sequence[str], device: Device | None = None) -> Embeddings:
        """Unit embeddings of prompts, (prompts, dim) float32. Only what is not known yet is computed.

        In another precision where its device is given; each precision has its own in the cache.
        """
        if not prompts:
            raise ModelError("there is no prompt to embed.", where=self.uri, remedy="give at least one")
        device = device or self._device
        known = self._known_texts(device)
        missing = [prompt for prompt in dict.fromkeys(prompts) if prompt not in known]
        if missing:
            with span("import"):
                from fairgate.models.embeddings import embed_texts

            embeddings = embed_texts(self._engine(), missing, device, self.uri)
            known.update(zip(missing, embeddings, strict=True))
            if self._request.cache:
                name = f"texts/{self.checkpoint.key(device)}/{digest(missing)}"
                notes = {"prompts": json.dumps(missing)}
                self._request.cache.write(name, {"embeddings": embeddings}, notes)
        return np.stack([known[prompt] for prompt in prompts])

    def reading_as(self, other: Model, *, tokenizer: bool, preprocessing: bool) -> TwoTowers:
        """This checkpoint, given texts by another one's tokenizer, or pictures by its preprocessing, or both.

        Raises ModelError where the other one is no such checkpoint; scoring raises ReadingMisfit where this one cannot
        take what it makes.
        """
        if not isinstance(other, TwoTowers):
            raise ModelError(
                "it is no checkpoint whose tokenizer and preprocessing can be used here.",
                where=other.uri,
                remedy="compare models of one family",
            )

        def load(_: Device) -> Encoder:
            from fairgate.models.input_digests import rereading

            return rereading(self._engine(), other._engine(), tokenizer=tokenizer, preprocessing=preprocessing)

        theirs = {"fingerprint": other.fingerprint, "identity": dict(other.checkpoint.identity)}
        reads = {**theirs, "tokenizer": tokenizer, "preprocessing": preprocessing}
        identity = {**self.checkpoint.identity, "reads_as": reads}
        mixed = type(self)(replace(self.checkpoint, identity=identity, load=load, images_of=None), self._request)
        if not preprocessing:
            mixed._images, mixed._scale_and_bias = self.image_embeddings(), self._scale_and_bias
        if not tokenizer:
            mixed._texts = {self.precision: self._known_texts(self._device)}
        return mixed

    def embeds_alike(self, other: RereadingModel) -> bool:
        """Whether two scorers that embedded the same images and prompts gave them the same vectors.

        Up to the rounding of float32 at every precision: equal tokens and pixels in equal batches give equal vectors,
        and what half precision's own rounding spans is a difference that a logit scale of 100 makes a logit of.
        """
        if not isinstance(other, TwoTowers):
            return False
        here, there = self._known_texts(self._device), other._known_texts(other._device)
        near = SAME_TEXT["fp32"]
        texts = all(np.linalg.norm(here[text] - there[text]) <= near for text in here.keys() & there.keys())
        images = np.linalg.norm(self.image_embeddings() - other.image_embeddings(), axis=1)
        return texts and bool((images <= near).all())

    def _known_texts(self, device: Device) -> dict[str, Embeddings]:
        """Every prompt that the cache has for this model at a precision; new ones are added as further files."""
        if device.precision not in self._texts:
            known = self._texts[device.precision] = {}
            cache = self._request.cache
            for entry in cache.below(f"texts/{self.checkpoint.key(device)}") if cache else []:
                if "prompts" in entry.notes:
                    known.update(zip(json.loads(entry.notes["prompts"]), entry.arrays["embeddings"], strict=True))
        return self._texts[device.precision]

    def loaded(self) -> Encoder:
        """The model itself, for what is fitted on it."""
        return self._engine()

    def share(self, other: Model) -> None:
        """Also the embeddings of texts."""
        if isinstance(other, TwoTowers) and self.checkpoint.key(self._device) == other.checkpoint.key(other._device):
            self._texts, self._lender = other._texts, other

    def _load(self) -> Encoder:
        return self.checkpoint.open(self._device, self.uri)

    def _cosines(self, texts: Floats) -> Floats:
        """(images, texts) float64 products of unit vectors, a chunk of images at a time."""
        images = self.image_embeddings()
        if images.shape[1] != texts.shape[1]:
            raise ModelError(
                f"pictures have {images.shape[1]:,} dimensions and texts {texts.shape[1]:,}.",
                where=self.uri,
                remedy="check config.json: both towers project into one space",
            )
        cosines = np.empty((len(images), len(texts)))
        with span("similarity"):
            for start in range(0, len(images), _CHUNK):
                chunk = slice(start, start + _CHUNK)
                np.matmul(unit(images[chunk].astype(np.float64)), texts.T, out=cosines[chunk])
        return cosines


def as_two_towers(model: Model, where: str) -> TwoTowers:
    """A model as one whose embeddings can be changed. Raises ModelError for another kind, and for a mitigated one."""
    if "debiased:" in model.uri:  # also below an adapter
        raise ModelError(
            "the model is mitigated already.",
            where=where,
            remedy="name the checkpoint that it is made of: one mitigation is judged at a time",
        )
    if not isinstance(model, TwoTowers):
        raise ModelError(
            f"{model.uri} has no embeddings of images and texts that a mitigation could change.",
            where=where,
            remedy="name a checkpoint with two towers (open_clip:, hf:)",
        )
    return model


def near_pairs(queries: Floats, ensembles: Sequence[Sequence[str]], distance: float) -> list[tuple[int, int]]:
    """Pairs of unit vectors that are no farther apart, of ensembles that are not written alike."""
    near = 1.0 - distance**2 / 2  # their cosine
    return [
        (other, place)
        for start in range(0, len(queries), _PAIRED)
        for place, cosines in enumerate(queries[start : start + _PAIRED] @ queries.T, start)
        for other in np.flatnonzero(cosines[:place] >= near).tolist()
        if list(ensembles[other]) != list(ensembles[place])
    ]


def averages(ensembles: Sequence[Sequence[str]], vectors: Mapping[str, Floats], uri: str) -> Floats:
    """Unit averages of the ensembles' unit vectors, (ensembles, dim). Raises ModelError for one without a prompt."""
    for number, prompts in enumerate(ensembles):
        if not prompts:
            raise ModelError(f"ensemble {number} holds no prompt.", where=uri, remedy="give it a prompt")
    return unit(np.stack([np.mean([vectors[prompt] for prompt in prompts], axis=0) for prompts in ensembles]))


def unit(vectors: Floats) -> Floats:
    """Vectors (..., dim) at length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
