"""Torch set up for scoring: autocast on a GPU, determinism, smaller batches when memory runs out."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fairgate.ground.errors import DeviceError
from fairgate.ground.spans import span
from fairgate.models.checkpoints.device import Device, no_cuda
from fairgate.models.checkpoints.encoder import Embeddings, Encoder, diverged

_CUDA: Any = torch.cuda
_AUTOCAST = {"amp_bf16": torch.bfloat16, "amp_fp16": torch.float16}
_TRIED_SIDES = ((64, 64), (97, 61), (40, 120))  # height and width
TRIAL_TOLERANCE = {"fp32": 1e-4, "amp_bf16": 5e-2, "amp_fp16": 1e-2}
"""How far a model's numbers may be from those that it should give, relative to the largest: the order of sums, and the
roundings of half precision in towers of some dozens of layers."""


def require_device(device: Device) -> None:
    """Raises DeviceError when the driver promised a GPU that torch cannot use."""
    if device.is_cuda and not torch.cuda.is_available():
        raise no_cuda(device, f"torch {torch.__version__} cannot use it")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread of the CPU, where learning would carry a sum's rounding, which follows the number of threads,
    into another result; on as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def scoring(device: Device) -> Iterator[None]:
    """No gradients, deterministic kernels, and autocast in the device's precision; torch is left as it was found.

    On a GPU, TF32 is off: what autocast leaves in float32 is computed in float32.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = (matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic)
    deterministic = torch.are_deterministic_algorithms_enabled()
    matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic = False, False, False, True
    if not device.is_cuda:  # cuBLAS would need an environment variable from before the process began
        torch.use_deterministic_algorithms(True)
    try:
        with (
            torch.inference_mode(),
            torch.autocast("cuda", dtype=_AUTOCAST.get(device.precision), enabled=device.precision in _AUTOCAST),
        ):
            yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic = before
        torch.use_deterministic_algorithms(deterministic)


def cast_once(model: Any, device: Device) -> Any:
    """The model with all weights in bfloat16 for that precision (buffers stay, as in the library), and under autocast
    with those of its linear layers as autocast casts them, which it does at every call again: equal numbers, from half
    of the memory. Weights that another layer has too, as word embeddings, stay as they are then.
    """
    if device.precision == "bf16":
        for own in model.parameters():
            own.data = own.data.to(torch.bfloat16)
    if (dtype := _AUTOCAST.get(device.precision)) is None:
        return model
    layers = list(model.modules())
    others = {id(own) for layer in layers if type(layer) is not torch.nn.Linear for own in layer.parameters(False)}
    for layer in layers:
        for own in layer.parameters(False) if type(layer) is torch.nn.Linear else ():
            if id(own) not in others:
                own.data = own.data.to(dtype)
    return model


def encoder_of(
    model: Any,
    device: Device,
    *,
    vocabulary: int,
    prepare: Callable[[Any], Any],
    images: Callable[[torch.Tensor], torch.Tensor],
    tokens: Callable[[Sequence[str]], Mapping[str, Any]],
    texts: Callable[[Mapping[str, Any]], torch.Tensor],
    scale: float | None = None,
    words: Any = None,
    tower: Callable[[], str] | None = None,
) -> Encoder:
    """The encoder of a model on a device, by `images`, features of a batch of pixels, and `texts`, those of tokens.

    Without a `scale`, the model's own: AttributeError for one that has no `logit_scale`. `words` is the text tower's
    embedding of tokens, where its tokens begin with one that opens the text; `tower` the digest of the image tower.
    """
    bias = getattr(model, "logit_bias", None)

    def array(features: torch.Tensor) -> Embeddings:
        if features.is_cuda:  # waiting would else take a core from those that decode
            done = _CUDA.Event(blocking=True)
            done.record(_CUDA.current_stream(features.device))
            done.synchronize()
        return np.asarray(features.float().cpu().numpy(), dtype=np.float32)

    def features(found: Mapping[str, Any]) -> torch.Tensor:
        return texts({name: each.to(device.name) for name, each in found.items()})

    return Encoder(
        scale=float(model.logit_scale.detach().exp()) if scale is None else scale,
        bias=0.0 if bias is None else float(bias.detach()),
        vocabulary=vocabulary,
        prepare=prepare,
        encode_images=lambda prepared: array(images(on_device(prepared, device))),
        tokens=tokens,
        encode_tokens=lambda found: array(features(found)),
        text_features=None if words is None else features,
        words=words,
        image_tower=tower,
    )


def tower_digest(model: Any, belongs: Callable[[str], bool], settings: Mapping[str, Any]) -> str:
    """Digest of the parameters and buffers of a model whose names belong to one tower, and of the settings it has."""
    content = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    every = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    for name, tensor in sorted(every):  # one that both towers have under a name each, too
        if belongs(name):
            content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return content.hexdigest()


def on_device(prepared: Any, device: Device) -> torch.Tensor:
    """Prepared pictures, a tensor each or one of all, as one tensor where the model is."""
    return (prepared if isinstance(prepared, torch.Tensor) else torch.stack(list(prepared))).to(device.name)


def trial_pictures() -> list[Image.Image]:
    """Pictures of some shapes to try a model on."""
    draw = np.random.default_rng(0)
    return [Image.fromarray(draw.integers(0, 256, (*sides, 3), dtype=np.uint8)) for sides in _TRIED_SIDES]


def pooled(output: Any) -> torch.Tensor:
    """The features in what a method of transformers returns: since version 5 an object, before the tensor itself."""
    features: torch.Tensor = getattr(output, "pooler_output", output)
    return features


class Halving:
    """Encodes a batch in pieces that fit: an out-of-memory error halves the pieces, and the limit stays."""

    def __init__(self, encode: Callable[[Sequence[Any]], NDArray[Any]], device: str) -> None:
        self._encode = encode
        self._device = device
        self._limit: int | None = None

    def __call__(self, items: Sequence[Any]) -> NDArray[Any]:
        """What is made of all items, (items, ...). Raises DeviceError when a single item does not fit."""
        done: list[NDArray[Any]] = []
        start = 0
        while start < len(items):
            size = min(self._limit or len(items), len(items) - start)
            try:
                with span("forward"):
                    done.append(self._encode(items[start : start + size]))
            except torch.OutOfMemoryError as error:
                if size == 1:
                    raise DeviceError(
                        "the device has too little free memory for a single image or prompt.",
                        where=self._device,
                        remedy="free memory on the GPU, or run with --fairness-device cpu",
                    ) from error
                self._limit = size // 2
                continue
            start += size
        return np.concatenate(done)


def unit_or_error(raw: Embeddings, where: Callable[[int], str]) -> Embeddings:
    """Rows scaled to length 1, float32. Raises ModelError for a NaN, infinite or zero row; `where(row)` names it."""
    wide = raw.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if bad.size:
        problem = (
            f"the model returned a NaN, infinite or zero embedding for {bad.size} of {len(raw)} inputs of a batch."
        )
        raise diverged(problem, where(int(bad[0])))
    return np.asarray(wide / lengths, dtype=np.float32)
