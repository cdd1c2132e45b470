"""`fairface:FILE?races=7`: a FairFace checkpoint, judged: the race, gender and age that it sees in a picture.

Karkkainen and Joo 2021. A picture is taken as one face, as it is; FairFace's own photographs, and what its authors cut
out, are such. To *use* a FairFace checkpoint on pictures of any kind, recipes have a role of the same scheme, which
looks for faces.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import ClassVar

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.models import checkpoints
from fairgate.models.classifiers.fixed_labels import FixedLabelModel, Loaded, loaded_into
from fairgate.models.classifiers.label_names import LabelNames
from fairgate.models.contract import Capability, Request, register
from fairgate.models.family import FileFamily
from fairgate.models.input_digests import preprocessing_digest

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other outputs for the same files
LIBRARIES = ("torchvision", "torch", "pillow")


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


@register
class FairFaceClassifiers(FileFamily):
    """The authors' checkpoints, and others of their layout."""

    scheme: ClassVar[str] = "fairface"
    forms: ClassVar[tuple[str, ...]] = ("fairface:FILE?races=7",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"predict"})

    def open(self, request: Request) -> FixedLabelModel:
        """Find and hash a checkpoint. Raises ModelError; loading waits until outputs are needed."""
        address, options = checkpoints.split_options(request.uri, request.address, ("races",))
        races = FairFaceLayout.races_of(request.uri, address, options.get("races"))
        path = checkpoints.resolve(address, request.base)
        checkpoints.require_weights(path)
        files = checkpoints.HashedFiles.of({"weights": path})
        named = {"race": FairFaceLayout.races[races], "gender": FairFaceLayout.genders, "age": FairFaceLayout.ages}
        return FixedLabelModel(
            checkpoints.Checkpoint(
                fingerprint=digest({"files": files.fingerprint(), "races": races}),
                identity={"adapter": "fairface", "code": CODE_VERSION, "libraries": checkpoints.versions(*LIBRARIES)},
                load=partial(load_fairface, files, races),
                preprocessing=preprocessing_digest(adapter="fairface", pixels=FairFaceLayout.pixels),
            ),
            {attribute: LabelNames.of(labels, None, request.uri) for attribute, labels in named.items()},
            request,
        )


def load_fairface(files: checkpoints.HashedFiles, races: int, device: checkpoints.Device) -> Loaded:
    """A checkpoint; its outputs are logits of the races, of the genders and of the ages. Raises ModelError."""
    from torchvision import transforms
    from torchvision.models import resnet34

    steps = [
        transforms.Resize((FairFaceLayout.pixels, FairFaceLayout.pixels)),
        transforms.ToTensor(),
        transforms.Normalize(FairFaceLayout.mean, FairFaceLayout.std),
    ]
    what = f"a ResNet-34 with {FairFaceLayout.outputs} outputs (FairFace)"
    build = partial(resnet34, num_classes=FairFaceLayout.outputs)
    whole = loaded_into(build, files, transforms.Compose(steps), device, what)
    used = [*range(races), *range(FairFaceLayout.first_gender, FairFaceLayout.outputs)]
    return Loaded(whole.prepare, lambda prepared: whole.outputs(prepared)[:, used])
