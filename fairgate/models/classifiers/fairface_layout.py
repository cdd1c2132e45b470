"""FairFace's checkpoints (Karkkainen and Joo 2021): which output of the ResNet-34 stands for what. No torch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from fairgate.ground.errors import ModelError


class FairFaceLayout:
    """The outputs: races first (of four, the first four), genders and ages from `first_gender` on in either checkpoint.

    Pictures of a face are shown with `pixels` a side, and ImageNet's mean and standard deviation.
    """

    races: ClassVar[dict[int, tuple[str, ...]]] = {
        7: ("White", "Black", "Latino_Hispanic", "East Asian", "Southeast Asian", "Indian", "Middle Eastern"),
        4: ("White", "Black", "Asian", "Indian"),
    }
    genders: ClassVar[tuple[str, ...]] = ("Male", "Female")
    ages: ClassVar[tuple[str, ...]] = (
        *("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69"),
        "more than 70",
    )
    outputs: ClassVar[int] = 18
    first_gender: ClassVar[int] = 7
    pixels: ClassVar[int] = 224
    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)

    # res34_fair_align_multi_4_20190809.pt, fairface_alldata_4race_20191111.pt
    _named: ClassVar[re.Pattern[str]] = re.compile(r"(?<![0-9])([47])(?:_?races?|_20\d{6})")
    _plain: ClassVar[str] = "fairface_alldata_20191111"  # the authors' checkpoint of seven races says so nowhere

    @classmethod
    def races_of(cls, uri: str, file: str, option: str | None) -> int:
        """Four or seven, as the option or else the file's name says. Raises ModelError where neither does."""
        name = Path(file).stem
        found = cls._named.search(name)
        races = option or (found[1] if found else "7" if name == cls._plain else None)
        if races not in ("4", "7"):
            raise ModelError(
                f"'{uri}' does not say whether the checkpoint has four or seven races.",
                where=uri,
                remedy="write ?races=4 or ?races=7 after the file",
            )
        return int(races)
