"""How pictures become the input of an ONNX model: by the options of its URI, or by the image processor of a folder. An
ONNX file does not say it, and nothing is guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import (
    IMAGE_CONFIGS,
    LOCAL,
    MAX_SIDE,
    HashedFiles,
    naming,
    option_number,
    read_config,
    silenced,
)
from fairgate.models.checkpoints.encoder import of_processor

OPTIONS = ("size", "crop", "pad", "interpolation", "mean", "std", "scale", "channels")
INTERPOLATIONS = ("bilinear", "nearest", "box", "bicubic", "lanczos")
CHANNELS = ("rgb", "bgr")
PREPROCESSOR = "preprocessor_config.json"
HOW = (
    "write &size=224&mean=0.485,0.456,0.406&std=0.229,0.224,0.225 (the numbers that it was trained with), or name the "
    f"folder of its {PREPROCESSOR}: &processor=FOLDER"
)
"""A remedy."""


@dataclass(frozen=True, slots=True)
class PicturePreparation:
    """A picture is resized, cut, and normalised: (level * scale - mean) / std, levels from 0 to 255.

    It is stretched to `size`, (height, width). With `crop`, its shorter side becomes `size`, and its middle of `crop` x
    `crop` pixels is shown. With `pad`, it keeps its shape and is filled up to `size` on both sides with that level.
    """

    size: tuple[int, int]
    crop: int | None
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: tuple[int, int]
    channels: str
    pad: int | None = None

    def placed(self, width: int, height: int) -> tuple[float, float, int, int]:
        """Of a picture of these sides: how many prepared pixels one of its own becomes, by x and y, and where its left
        and its top are; what a `crop` shows is not looked at."""
        if self.pad is None:
            return self.size[1] / width, self.size[0] / height, 0, 0
        ratio = min(self.size[1] / width, self.size[0] / height)
        sides = [max(1, round(side * ratio)) for side in (width, height)]
        return ratio, ratio, (self.size[1] - sides[0]) // 2, (self.size[0] - sides[1]) // 2

    def __call__(self, image: Any) -> NDArray[np.float32]:
        """A Pillow RGB image as (3, height, width) float32."""
        from PIL import Image

        resample = Image.Resampling[self.interpolation.upper()]
        if self.pad is not None:
            ratio, _, left, top = self.placed(*image.size)
            whole = image.resize([max(1, round(side * ratio)) for side in image.size], resample)
            shown = Image.new("RGB", (self.size[1], self.size[0]), (self.pad,) * 3)
            shown.paste(whole, (left, top))
        elif self.crop is None:
            height, width = self.size
            shown = image.resize((width, height), resample)
        else:
            short = self.size[0]
            width, height = (max(short, int(short * side / min(image.size))) for side in image.size)
            left, top = (round((side - self.crop) / 2) for side in (width, height))
            whole = image.resize((width, height), resample)
            shown = whole.crop((left, top, left + self.crop, top + self.crop))
        levels = np.asarray(shown, dtype=np.float32)[..., :: -1 if self.channels == "bgr" else 1]
        scaled = levels * np.float32(self.scale[0]) / np.float32(self.scale[1])
        normal = (scaled - np.asarray(self.mean, dtype=np.float32)) / np.asarray(self.std, dtype=np.float32)
        return np.ascontiguousarray(normal.transpose(2, 0, 1), dtype=np.float32)

    @classmethod
    def of(cls, options: Mapping[str, str], uri: str) -> PicturePreparation:
        """As a URI's options give it. Raises ModelError for what is missing or no such number."""
        if "size" not in options or not ({"mean", "std"} <= options.keys() or "scale" in options):
            raise _open("the URI does not say how pictures are prepared for the model.", uri)
        if ("mean" in options) != ("std" in options):
            raise _open("the URI gives one of mean= and std=, and not the other.", uri)
        height, mark, width = options["size"].partition("x")
        sides = [int(option_number(uri, "size", side, 1, MAX_SIDE)) for side in (height, width if mark else height)]
        crop = None
        if "crop" in options:
            crop = int(option_number(uri, "crop", options["crop"], 1, MAX_SIDE))
            if mark or crop > sides[0]:
                raise ModelError(
                    "with crop=, size= is one number, the shorter side of the picture, and not less than crop.",
                    where=uri,
                    remedy="write it as &size=256&crop=224",
                )
        pad = int(option_number(uri, "pad", options["pad"], 0, 255)) if "pad" in options else None
        if pad is not None and crop is not None:
            raise ModelError("a picture is cut by crop=, or filled up by pad=.", where=uri, remedy="leave one out")
        std = _by_channel(options.get("std", "1"), "std", uri)
        if min(std) <= 0:
            raise ModelError("std= holds a number that is not above 0.", where=uri, remedy="write another one")
        return cls(
            size=(sides[0], sides[1]),
            crop=crop,
            interpolation=chosen("interpolation", INTERPOLATIONS, options, uri) or INTERPOLATIONS[0],
            mean=_by_channel(options.get("mean", "0"), "mean", uri),
            std=std,
            scale=_ratio(options.get("scale", "1/255"), uri),
            channels=chosen("channels", CHANNELS, options, uri) or CHANNELS[0],
            pad=pad,
        )


def _open(problem: str, uri: str) -> ModelError:
    return ModelError(problem, where=uri, remedy=HOW)


def chosen(name: str, known: tuple[str, ...], options: Mapping[str, str], uri: str) -> str | None:
    """An option with few values; None without it. Raises ModelError for another value."""
    value = options.get(name)
    if value is not None and value not in known:
        raise ModelError(f"'{name}' is '{value[:40]}'.", where=uri, remedy=f"one of: {', '.join(known)}")
    return value


def _by_channel(text: str, name: str, uri: str) -> tuple[float, ...]:
    """One number for all channels, or one for each."""
    numbers = tuple(option_number(uri, name, part, -1e6, 1e6, whole=False) for part in text.split(","))
    if len(numbers) not in (1, 3):
        raise ModelError(
            f"{name}= holds {len(numbers)} numbers.", where=uri, remedy="give one, or one per channel: 0.5,0.5,0.5"
        )
    return numbers


def _ratio(text: str, uri: str) -> tuple[int, int]:
    """What multiplies levels, `1/255` or a number, as numerator and denominator: dividing by 255 rounds otherwise than
    multiplying by 1/255 does."""
    try:
        ratio = Fraction(text)
    except (ValueError, ZeroDivisionError):
        ratio = Fraction(0)
    if not 1e-6 <= ratio <= 1e6:
        raise ModelError(
            f"'scale' is '{text[:40]}'.", where=uri, remedy="write what multiplies levels: &scale=1/255, or &scale=1"
        )
    limited = ratio if math.log2(ratio.denominator) <= 24 else ratio.limit_denominator(1 << 24)
    return limited.numerator, limited.denominator


def files_in(folder: Path, names: Collection[str], needed: Collection[str], lack: str) -> dict[str, Path]:
    """The files of those names in a processor's folder. Raises ModelError for a folder without any of those needed, and
    for what is refused of configs: code of their own, names that lead out, enormous sizes."""
    found = {name: folder / name for name in sorted(names) if (folder / name).is_file()}
    if not set(needed) & set(found):
        raise ModelError(
            f"the folder after processor= {lack}.",
            where=str(folder),
            remedy="save the model's processor into it: processor.save_pretrained(FOLDER)",
        )
    for name in {*IMAGE_CONFIGS, "tokenizer_config.json", "special_tokens_map.json"} & set(found):
        read_config(found[name])
    return found


def read_by(auto_class: str, files: HashedFiles, names: Collection[str], folder: Path) -> Any:
    """What a class of transformers makes of a folder's hashed files. Raises ModelError."""
    import transformers
    from transformers.utils import logging

    roles = {role: role for role in names if role in files.paths}
    with files.closed(roles) as closed, naming(str(folder), "be loaded", closed), silenced(logging):
        return getattr(transformers, auto_class).from_pretrained(closed, **LOCAL)


def processor_files(folder: Path) -> dict[str, Path]:
    """The image configs of a folder, by name. Raises ModelError as `files_in`, and for one that names no processor."""
    found = files_in(folder, IMAGE_CONFIGS, IMAGE_CONFIGS, f"does not say how images are prepared ({PREPROCESSOR})")
    for path in found.values():
        config = read_config(path)
        kind = config.get("image_processor", config).get("image_processor_type", config.get("image_processor_type"))
        if not isinstance(kind, str):
            raise ModelError(
                "the config does not name its image processor (image_processor_type).",
                where=str(path),
                remedy=f"save it again with processor.save_pretrained(FOLDER); or without one: {HOW}",
            )
    return found


def processor_of(files: HashedFiles, folder: Path) -> Callable[[Any], Any]:
    """The image processor of a folder's hashed configs. Raises ModelError."""
    return of_processor(read_by("AutoImageProcessor", files, IMAGE_CONFIGS, folder))
