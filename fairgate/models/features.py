"""`features:FOLDER?head=FILE`: a backbone that transformers saved, without labels of its own (DINOv2, DINOv3, ViT,
ConvNeXt; others, such as the image tower of a CLIP, in an isolated process), and a linear head that was fitted on its
features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.checkpoints import Device, Embeddings, TransformersFolder
from fairgate.models.classifiers.fixed_labels import FixedLabelModel, Loaded
from fairgate.models.classifiers.label_names import LabelNames, named_outputs
from fairgate.models.contract import Capability, Model, Request, register
from fairgate.models.family import FolderFamily
from fairgate.models.feature_heads import Head, Pool, Table, read_head
from fairgate.models.input_digests import folder_preprocessing
from fairgate.models.isolated import isolated

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other features for the same files
LIBRARIES = ("transformers", "torch", "torchvision", "pillow")
PENALTY = 1e-3
"""Of the squared weights, per image, on features of standard deviation 1."""


@register
class FeatureFamily(FolderFamily):
    """Backbones of transformers, with a head."""

    scheme: ClassVar[str] = "features"
    forms: ClassVar[tuple[str, ...]] = ("features:FOLDER?head=FILE",)
    capabilities: ClassVar[frozenset[Capability]] = FixedLabelModel.capabilities
    files = ("head", "labels")

    def is_plain(self, folder: Path) -> bool:
        """Whether a folder is of another type than those listed, saved without a head: as `CLIPModel`, `BeitModel`."""
        config = checkpoints.read_small_config(folder / "config.json") or {}
        kind, saved = config.get("model_type"), config.get("architectures")
        named = str(saved[0]) if isinstance(saved, list) and saved else ""
        # timm's own folder is better known; a mask goes with the patches of a SigLIP 2
        others = ("timm_wrapper", "siglip2")
        return isinstance(kind, str) and kind not in (*checkpoints.BACKBONES, *others) and named.endswith("Model")

    def open(self, request: Request) -> FixedLabelModel:
        """Find and hash folder and head; without a head, a backbone for one to be fitted on, which answers no probe.
        Raises ModelError."""
        address, options = checkpoints.split_options(
            request.uri, request.address, ("head", "labels", "pool", "processor")
        )
        found = self.found(request, address, options, checkpoints.BACKBONES, tokenizer=False)
        head = _head_of(options, found, request)
        pool = _pool(found, options.get("pool"), head, request.uri)
        fingerprint, names, attribute = found.fingerprint, LabelNames((), {}), ""
        if head:
            labels, outputs = None if head.labels is None else list(head.labels), len(head.weight)
            names, declared = named_outputs(labels, options.get("labels"), request.base, options["head"], outputs)
            fingerprint = digest({"files": fingerprint, "head": head.content, "pool": pool, **declared})
            attribute = head.attribute
        code, libraries = checkpoints.code_of(found, CODE_VERSION), checkpoints.versions(*LIBRARIES, *found.packages)
        checkpoint = checkpoints.Checkpoint(
            fingerprint=fingerprint,
            identity={"adapter": "features", "code": code, "libraries": libraries, "pool": pool},
            load=partial(_load, found, head, pool),
            preprocessing=folder_preprocessing(found, "features", pool=pool),
        )
        notes = filter(None, [head.note if head else None, checkpoints.plain_note(found)])
        return FixedLabelModel(checkpoint, names, request, "; ".join(notes) or None, attribute)


def _head_of(options: Mapping[str, str], found: TransformersFolder, request: Request) -> Head | None:
    """The head that an option names. Raises ModelError for one of another backbone, and for one that was fitted on what
    it would judge."""
    if "head" not in options:
        return None
    path = checkpoints.resolve(options["head"], request.base)
    checkpoints.require_weights(path)
    head = read_head(path)
    head.require_other(request.source, request.uri)
    if head.origin and head.origin != found.fingerprint:
        raise ModelError(
            f"the head was fitted on the features of another backbone ({head.origin[:12]}, and this is "
            f"{found.fingerprint[:12]}).",
            where=str(path),
            remedy="name that backbone, or fit a head on this one: `fairgate head fit`",
        )
    return head


def _pool(found: TransformersFolder, option: str | None, head: Head | None, uri: str) -> Pool:
    """What is taken of a backbone: as the URI says, else as the head does, else the usual of its kind."""
    usual = "pooled" if found.plain or "convnext" in found.kind else "cls"
    pool = option or (head.pool if head else None) or usual
    if pool not in get_args(Pool) or (option and head and head.pool not in (None, option)):
        raise ModelError(
            f"pool is '{str(pool)[:40]}', which is none, or not what its head was fitted on.",
            where=uri,
            remedy=f"leave it out, or write one of: {', '.join(get_args(Pool))} (cls_mean: CLS and the patches' mean)",
        )
    return cast(Pool, pool)


def load_backbone(found: TransformersFolder, device: Device, pool: Pool) -> Loaded:
    """A backbone, whose outputs are what is taken of it, (images, width); a plain folder's only in the process that is
    for it. Raises ModelError."""
    import torch

    # DINO's ViT was published without the pooling layer that ViTModel would make up
    without = {"add_pooling_layer": False} if found.kind == "vit" and not found.plain else {}
    unused = ("pooler.",) if without else ()
    name = checkpoints.class_of_task(found, "MODEL_MAPPING")
    model, processor, _ = checkpoints.load_parts(name, found, device, texts=False, unused=unused, **without)
    first = 0 if found.plain else 1 + int(getattr(model.config, "num_register_tokens", 0) or 0)

    def features(prepared: Sequence[Any]) -> Embeddings:
        pixels = checkpoints.on_device(prepared, device)
        made: torch.Tensor | None
        if pool != "pooled":
            tokens = model(pixel_values=pixels).last_hidden_state
            cls, mean = tokens[:, 0], tokens[:, first:].mean(dim=1)
            pools = {"cls": cls, "mean": mean, "cls_mean": torch.cat([cls, mean], dim=1)}
            made = pools[pool] if tokens.ndim == 3 else None
        elif hasattr(model, "get_image_features"):
            made = checkpoints.pooled(model.get_image_features(pixel_values=pixels))
        else:
            made = getattr(model(pixel_values=pixels), "pooler_output", None)
        if made is None:
            raise ModelError(
                f"{type(model).__name__} gives no features that are {pool}.",
                where=str(found.path),
                remedy="write another ?pool=, or judge a table of the head's answers: labels: or scores:FILE",
            )
        return np.asarray(made.flatten(1).float().cpu().numpy(), dtype=np.float32)

    prepare = checkpoints.of_processor(processor)
    if found.plain:
        with checkpoints.scoring(device):
            _require_repeatable(prepare, features, found, device)
    return Loaded(prepare, features)


def _require_repeatable(prepare: Any, features: Any, found: TransformersFolder, device: Device) -> None:
    """Raises ModelError for a model that draws at random, as one that hides parts of every picture (ViTMAE)."""
    shown = [prepare(checkpoints.trial_pictures()[0])] * 8  # of few patches the same ones may be hidden twice
    rows = np.concatenate([features(shown), features(shown)])
    if np.abs(rows - rows[0]).max() > checkpoints.TRIAL_TOLERANCE[device.precision] * np.abs(rows[0]).max():
        raise ModelError(
            f"a {found.kind[:80]} gives other features of the same picture each time.",
            where=str(found.path),
            remedy="turn off what it draws at random: of a vit_mae, write `mask_ratio` 0 into config.json",
        )


def _load(found: TransformersFolder, head: Head | None, pool: Pool, device: Device) -> Loaded:
    opened = partial(isolated, load_backbone) if found.plain else load_backbone
    backbone: Loaded = opened(found, device, pool)
    if head is None:
        return backbone

    def outputs(prepared: Sequence[Any]) -> Embeddings:
        features = backbone.outputs(prepared)
        if features.shape[1] != (width := head.weight.shape[1]):
            raise ModelError(
                f"the head takes {width} numbers, and the backbone gives {features.shape[1]} (pool={pool}).",
                where=str(found.path),
                remedy="say with ?pool= what it was fitted on: DINOv2's own heads are on cls_mean",
            )
        return head.logits(features)

    return Loaded(backbone.prepare, outputs)


def fit_head(
    model: Model,
    codes: NDArray[np.int64],
    labels: Sequence[str],
    *,
    attribute: str,
    release: str,
    fingerprint: str,
    penalty: float = PENALTY,
) -> Head:
    """A head for a backbone that is bound to labelled pictures: a multinomial logistic regression with an L2 penalty on
    standardised features. `codes` (images,) are places in `labels`, -1 for none.

    Raises ModelError for a model that is no backbone, and for pictures of fewer than two labels.
    """
    if not isinstance(model, FixedLabelModel) or "pool" not in model.checkpoint.identity:
        raise ModelError(
            "it is no backbone without a head.", where=model.uri, remedy="name one as features:FOLDER, without head="
        )
    known = codes >= 0
    there = np.unique(codes[known])
    if len(there) < 2:
        raise ModelError(
            f"pictures of {len(there)} label(s) teach nothing.", where=release, remedy="name an attribute of two groups"
        )
    features, own = model.outputs()[known], np.searchsorted(there, codes[known]).astype(np.int64)
    weight, bias = _regression(features, own, len(there), penalty)
    return Head(
        labels=tuple(labels[place] for place in there.tolist()),
        attribute=attribute,
        pool=model.checkpoint.identity["pool"],
        release=release,
        fingerprint=fingerprint,
        origin=model.fingerprint,
        weight=weight,
        bias=bias,
    )


def _regression(features: Table, codes: NDArray[np.int64], labels: int, penalty: float) -> tuple[Table, Table]:
    """Weight (labels, width) and bias (labels,) that minimise the mean cross-entropy plus the penalty."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(features.astype(np.float64))
    two = labels == 2  # one row is fitted, the difference of theirs: its square is twice the sum of the squares of both
    strength = 1 / (penalty * len(codes) * (1 if two else 2))
    fitted = LogisticRegression(C=strength, tol=1e-6, max_iter=15_000).fit(scaler.transform(features), codes)
    weight, bias = fitted.coef_ / scaler.scale_, fitted.intercept_
    if two:
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return weight.astype(np.float32), (bias - weight @ scaler.mean_).astype(np.float32)
