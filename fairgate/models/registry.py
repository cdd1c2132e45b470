"""Families of judged models by URI scheme. Each registers itself when it is imported; installed packages add theirs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from fairgate.ground.errors import FairgateError, ModelError, suggestion
from fairgate.ground.local_paths import require_local
from fairgate.models.checkpoints import Device, home_of, resolve
from fairgate.models.contract import REGISTERED, ImageSource, Model, Progress, Request

if TYPE_CHECKING:
    from fairgate.models.cache import EmbeddingCache

FAMILIES = REGISTERED.with_modules(
    {
        **{scheme: f"fairgate.models.{scheme}" for scheme in ("open_clip", "hf", "scores", "debiased", "peft")},
        **dict.fromkeys(("embeddings", "labels", "numbers"), "fairgate.models.scores"),
        "answers": "fairgate.models.answer_table",
        **dict.fromkeys(("vlm", "captions"), "fairgate.models.vlm.family"),
        "detector": "fairgate.models.detection.family",
        "detections": "fairgate.models.answer_table",
        "classifier": "fairgate.models.classifiers.transformers_classifier",
        "features": "fairgate.models.features",
        "diffusion": "fairgate.models.generation.diffusion_classifier.family",
        "onnx": "fairgate.models.onnx.family",
        "openai": "fairgate.models.served.family",
        "timm": "fairgate.models.classifiers.timm_classifier",
        "torchvision": "fairgate.models.classifiers.torchvision_classifier",
    }
)
"""Models of images and texts, by scheme; others by the entry points `fairgate.models`."""
_OF_BUILDS = {
    "fairface": "judge its file as torchvision:resnet34@FILE?labels=FILE&resize=224&crop=224, with a probe for the "
    "labels of each attribute; or a table of its answers, labels:FILE"
}
"""Schemes that only recipes know, and what to write instead."""


def open_scorer(
    uri: str,
    source: ImageSource,
    *,
    device: str | Device = "auto",
    cache: EmbeddingCache | None = None,
    base: Path = Path(),
    progress: Progress | None = None,
    batch_size: int | None = None,
    seed: int = 0,
) -> Model:
    """Find and hash the model that a URI names; load it on the first score that the cache lacks.

    `base` is the folder that relative paths in the URI start from. `progress(done, total)` is called as images are
    embedded; an exception raised in it stops the work, and what is done stays in the cache. `seed` is that of
    `Request`. Raises ModelError (the checkpoint cannot be found, trusted or loaded), ScoresError (`scores:` files) or
    DeviceError.
    """

    def opened(named: str, known_as: str = "") -> Model:
        scheme, address = require_uri(named, base)
        request = Request(known_as or named, address, source, device, cache, base, progress, batch_size, opened, seed)
        with FAMILIES.blaming(scheme):
            return FAMILIES[scheme].open(request)

    return opened(uri)


def require_uri(uri: str, base: Path = Path()) -> tuple[str, str]:
    """A model URI's scheme and what follows it. Raises ModelError for what is none; for a path, relative to `base`,
    with the URI that it may be meant for."""
    scheme, colon, address = uri.partition(":")
    if not colon or scheme not in FAMILIES:
        require_local(uri, "a model's URI", ModelError)
        known = _known_schemes()
        raise ModelError(
            f"'{uri}' is not a model URI that fairgate knows.",
            remedy=(_OF_BUILDS.get(scheme) or suggestion(scheme, FAMILIES, known))
            if colon
            else f"{_uri_of_path(uri, base)}{known}",
        )
    if not address:
        raise ModelError(f"model '{uri}' names nothing after '{scheme}:'.", remedy=_known_schemes())
    return scheme, address


def _uri_of_path(path: str, base: Path) -> str:
    """The start of a remedy for a path without a scheme: the URI that it may be meant for."""
    with suppress(FairgateError, OSError, ValueError):  # a name that is too long, a NUL, a root that is not set
        place = resolve(path, base)
        if path and place.is_dir():
            home = home_of(place)
            return f"write `{'hf:FOLDER' if home is None else home.uri}`; ".replace("FOLDER", path)
        if place.suffix.lower() == ".onnx" and place.is_file():
            return f"write `onnx:{path}?labels=FILE`; "
        if place.is_file():
            return f"a file needs its scheme, such as `open_clip:ARCH@{path}`; "
    return ""


_MOST_INSIDE = 4  # models inside each other's addresses


def local_paths(uri: str) -> tuple[Path, ...]:
    """The files and folders that a model URI names, as they are written there; none for a tag or another kind of name.

    A family whose URIs hold another model's says which by a method `origin(address)`, and one whose options name files
    has `option_files(address)`; those files are among these.

    >>> [path.as_posix() for path in local_paths("debiased:clip100.json?model=open_clip:ViT-B-32@ckpt.safetensors")]
    ['clip100.json', 'ckpt.safetensors']
    """
    paths: list[Path | None] = []
    for scheme, address in _chain(uri):
        family = FAMILIES[scheme]
        paths += [family.local_path(address), *getattr(family, "option_files", lambda _: ())(address)]
    return tuple(path for path in paths if path is not None)


def count_weights(model: Model) -> int | None:
    """How many numbers a model's safetensors files hold, by their headers: no tensor is read. Adapters are not counted.
    None where its URI names no such file, and for a damaged one."""
    base: Path | None = getattr(model, "base", None)
    if base is None:
        return None
    named, counted = [resolve(str(path), base) for path in local_paths(model.uri)], 0
    files = [file for path in named for file in (path.glob("*.safetensors") if path.is_dir() else [path])]
    try:
        for file in files:
            if file.suffix == ".safetensors" and file.is_file() and not file.name.startswith("adapter_"):
                with safe_open(file, framework="np") as tensors:
                    shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
                counted += sum(map(math.prod, shapes))
    except SafetensorError:
        return None
    return counted or None


def schemes(uri: str) -> list[str]:
    """The scheme of a model URI, and of the model inside it where it holds one."""
    return [scheme for scheme, _ in _chain(uri)]


def published_models(uri: str) -> list[str]:
    """Models that a URI names by what somebody published, and no file or folder: of the hub, or by a tag.

    >>> published_models("debiased:a.json?model=open_clip:ViT-B-32@openai"), published_models("hf:models/clip")
    (['open_clip:ViT-B-32@openai'], [])
    """
    return [f"{scheme}:{address}" for scheme, address in _chain(uri) if FAMILIES[scheme].local_path(address) is None]


def uri_options(uri: str) -> str:
    """What a model URI says besides where its files are: the options of its model and of the one inside it.

    >>> uri_options("vlm:models/new?question=What is their job?"), uri_options("debiased:a.json?model=hf:b")
    ('question=What is their job?', 'model=')
    """
    options = []
    for scheme, address in _chain(uri):
        inner = str(getattr(FAMILIES[scheme], "origin", lambda _: "")(address))
        written = address.partition("?")[2]
        options.append(written.replace(inner, "") if inner else written)
    return " ".join(filter(None, options))


def _chain(uri: str) -> Iterator[tuple[str, str]]:
    """Scheme and address of a model, of the one inside it, and so on; a family of a package may name any text."""
    for _ in range(_MOST_INSIDE):
        scheme, _, address = uri.partition(":")
        if not address or scheme not in FAMILIES:
            return
        yield scheme, address
        uri = str(getattr(FAMILIES[scheme], "origin", lambda _: "")(address))


def uri_forms() -> str:
    """The ways to write a model URI, for messages; a package's family has its own among them."""
    forms = list[str]()
    for scheme in FAMILIES:
        try:
            forms += FAMILIES[scheme].forms
        except FairgateError:  # of a package that cannot be loaded: the message is about something else
            forms.append(f"{scheme}:...")
    return ", ".join(forms)


def _known_schemes() -> str:
    listed = ", ".join(f"{scheme}:" for scheme in FAMILIES)
    return f"known schemes: {listed} ({uri_forms()})"
