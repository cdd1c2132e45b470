"""A judged model with fixed labels: its outputs for every image, computed once and cached by content; and its weights,
where they say nothing but numbers, in an architecture that a library names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.ground.spans import span
from fairgate.models import checkpoints
from fairgate.models.checkpoints import Adapter, Checkpoint, Device, Embeddings, HashedFiles, named
from fairgate.models.classifiers.label_names import LabelNames
from fairgate.models.classifiers.own_head import put_head
from fairgate.models.contract import Capability, Floats, Model, Predicted, Request, RereadingModel, log_softmax
from fairgate.models.family import JudgedModel
from fairgate.models.input_digests import ReadingMisfit
from fairgate.models.known_images import KnownImages

SAME_OUTPUT = 64 * 2.0**-23
"""Differences of outputs, relative to the largest, that are rounding of float32 alone: the order of sums."""
MAX_BUFFERS = 64 << 20
"""Bytes of what an architecture computes from its settings alone, such as masks of attention: no weights file says
how large they are."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded classifier: `prepare` makes of a Pillow RGB image what it takes, as an encoder's; `outputs` returns
    logits (images, outputs) float32."""

    prepare: Callable[[Any], Any]
    outputs: Callable[[Sequence[Any]], Embeddings]


class FixedLabelModel(JudgedModel[Loaded]):
    """The probability of a label is a softmax over exactly the labels that a suite lists, of the model's logits.

    Of outputs that were trained one by one (`multi_label_classification`: a sigmoid each), that is the probability of a
    label given that exactly one of those listed is there. A name of several outputs has their sum.

    `names` are its labels, in the order of its outputs: none of a backbone whose outputs are features. `attribute` is
    what they are of, empty if that is not known. The digest of the names is how it reads a suite's texts.
    """

    capabilities: frozenset[Capability] = frozenset({"log_probabilities", "predict"})
    texts_read_by: ClassVar[str] = "labels"

    def __init__(
        self,
        checkpoint: Checkpoint,
        names: LabelNames,
        request: Request,
        note: str | None = None,
        attribute: str = "",
    ) -> None:
        super().__init__(request, note=note)
        self.checkpoint, self.names, self.attribute = checkpoint, names, attribute
        if not names.own:
            self.capabilities = frozenset()
        self.fingerprint, self.preparation = checkpoint.fingerprint, checkpoint.preparation
        self.preprocessing = checkpoint.preprocessing
        self.tokenizer = digest({"heads": [[attribute, names.digest]]})
        self._outputs: Embeddings | None = None

    def require_label(self, label: str) -> None:
        """Raises ModelError for a label that the model does not have."""
        self.names.find(label, self.uri)

    def log_probabilities(self, prompts: Sequence[str]) -> Floats:
        """Log-softmax over exactly these labels: (images, prompts) float64. Raises ModelError for a label that the
        model does not have."""
        if not prompts:
            raise ModelError("there is no label to choose from.", where=self.uri, remedy="give at least one")
        return log_softmax(self._summed([self.names.find(prompt, self.uri) for prompt in prompts]))

    def predict(self, attribute: str) -> Predicted:
        """The likeliest label of every image, empty where the likeliest two tie, and its probability among all labels.
        Raises ModelError for an attribute that the model has no labels of."""
        if self.attribute not in ("", attribute):
            raise ModelError(
                f"the model has no labels of '{attribute}'.",
                where=self.uri,
                remedy=f"it has labels of: {self.attribute}",
            )
        log_p = log_softmax(self._summed(list(self.names.outputs.values())))
        highest = log_p.max(axis=1)
        labels = np.array(list(self.names.outputs), dtype=object)[log_p.argmax(axis=1)]
        labels[(log_p == highest[:, None]).sum(axis=1) > 1] = ""
        return Predicted(labels, np.exp(highest))

    def indistinct(self, ensembles: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """Pairs of labels that are the same outputs: other labels are others, whatever they answer."""
        if not all(len(prompts) == 1 for prompts in ensembles):
            return []
        found = [self.names.find(prompts[0], self.uri) for prompts in ensembles]
        return [(found.index(one), place) for place, one in enumerate(found) if found.index(one) < place]

    def reading_as(self, other: Model, *, tokenizer: bool, preprocessing: bool) -> FixedLabelModel:
        """This model with another one's names of labels (its `tokenizer`), or with pictures prepared by the other, or
        both. Raises ModelError where the other is no classifier or has another number of outputs."""
        if not isinstance(other, FixedLabelModel):
            raise ModelError(
                "it is no classifier whose labels and preprocessing can be used here.",
                where=other.uri,
                remedy="compare models of one family",
            )
        named = other if tokenizer else self
        if len(named.names.own) != len(self.names.own):
            raise ReadingMisfit(f"it has {len(named.names.own)} labels, and this model {len(self.names.own)}.")

        def load(_: Device) -> Loaded:
            return replace(self._engine(), prepare=other._engine().prepare)

        identity = {**self.checkpoint.identity, "reads_as": other.fingerprint}
        checkpoint = replace(self.checkpoint, identity=identity, load=load)
        mixed = FixedLabelModel(checkpoint, named.names, self._request, attribute=named.attribute)
        if not preprocessing:
            mixed._outputs = self.outputs()
        return mixed

    def embeds_alike(self, other: RereadingModel) -> bool:
        """Whether two models have the same names of labels and gave every image the same outputs, up to rounding."""
        if not isinstance(other, FixedLabelModel) or self.tokenizer != other.tokenizer:
            return False
        here, there = self.outputs(), other.outputs()
        return bool(np.abs(here - there).max() <= SAME_OUTPUT * max(1.0, np.abs(here).max()))

    def outputs(self) -> Embeddings:
        """Logits of every image, (images, outputs) float32, from the cache or the model."""
        if self._outputs is not None:
            return self._outputs
        cache = self._request.cache
        key = self.checkpoint.key(self._device, dataset=self._request.source.fingerprint)
        entry = cache.read(f"outputs/{key}") if cache else None
        if entry is not None and "outputs" in entry.arrays:
            self._outputs = entry.arrays["outputs"]
            return self._outputs
        with span("import"):
            from fairgate.models.embeddings import numbers_of_images

        def loaded() -> tuple[Any, Any]:
            model = self._engine()
            return model.prepare, model.outputs

        name, alike = f"parts/{key}", self.checkpoint.key(self._device)
        known = KnownImages(self._request, f"outputs/{key}", alike, "outputs") if cache else None
        self._outputs = numbers_of_images(loaded, self._finite, self._request, self._device, name, known)
        if cache:
            cache.write(f"outputs/{key}", {"outputs": self._outputs})
            cache.drop_all(name)
        return self._outputs

    def _summed(self, groups: Sequence[Sequence[int]]) -> Floats:
        """Logarithms of summed exponentials of outputs, (images, groups) float64."""
        outputs = self.outputs().astype(np.float64)
        return np.stack([np.logaddexp.reduce(outputs[:, list(found)], axis=1) for found in groups], axis=1)

    def _finite(self, raw: Embeddings, where: Callable[[int], str]) -> Embeddings:
        width = len(self.names.own)
        fits = not width or raw.shape[1:] == (width,)
        bad = np.flatnonzero(~np.isfinite(raw).all(axis=1)) if fits else np.arange(1)
        if bad.size:
            problem = f"the model's outputs are NaN, infinite, or not {width} numbers an image."
            raise checkpoints.diverged(problem, where(int(bad[0])))
        return raw

    def _load(self) -> Loaded:
        found: Loaded = self.checkpoint.load(self._device)
        prepare = named(found.prepare, self.uri)
        return Loaded(prepare, checkpoints.naming(self.uri, "classify pictures")(found.outputs))


def keyed_note(key: str | None) -> str | None:
    """What a record says of weights that the URI chose in a checkpoint of a training; None for the usual ones."""
    return f"its weights are those under '{key[:80]}' in the checkpoint" if key else None


def loaded_into(
    build: Callable[[], Any],
    files: HashedFiles,
    prepare: Callable[[Any], Any],
    device: Device,
    architecture: str,
    *,
    key: str | None = None,
    adapter: Adapter | None = None,
    head: str | None = None,
) -> Loaded:
    """A classifier with the weights under the role `weights`. Raises ModelError where they do not fit, hold no number
    or would run code; shapes are compared before memory is taken for the model. `key`: of the state dict there;
    `adapter`: merged into them; `head`: the layers in the place of the architecture's."""
    import torch

    files.require_unchanged()
    path = files.paths["weights"]
    with torch.random.fork_rng(devices=[]):
        with torch.device("meta"):
            described = build()
        if sum(one.nbytes for one in described.buffers()) > MAX_BUFFERS:
            raise ModelError(
                f"{architecture} would hold more than {MAX_BUFFERS >> 20} MB that are none of its weights.",
                where=str(path),
                remedy="check the sizes in its config, such as img_size and window_size",
            )
        own = list(described.state_dict())
        state = checkpoints.read_state_dict(path, key=key, own=own)
        if head:
            with torch.device("meta"):
                put_head(described, head, state, str(path))
        checkpoints.require_fit(state, described, str(path), architecture)
        checkpoints.require_finite(state, str(path))
        model = build()
        if head:
            put_head(model, head, state, str(path))
    model.load_state_dict(state)
    model = model.float().eval()
    if adapter:
        checkpoints.merge_adapter(model, adapter)
    model.to(device.name)

    def outputs(prepared: Any) -> Any:
        return model(checkpoints.on_device(prepared, device)).float().cpu().numpy()

    return Loaded(checkpoints.of_chain(prepare), outputs)
