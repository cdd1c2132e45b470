"""`fairface:FILE?races=7`: a FairFace checkpoint, judged: the race, gender and age that it sees in a picture.

A picture is taken as one face, as it is; FairFace's own photographs, and what its authors cut out, are such. To *use* a
FairFace checkpoint on pictures of any kind, recipes have a role of the same scheme, which looks for faces.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import Device, HashedFiles, require_weights, resolve, split_options, versions
from fairgate.models.classifiers.fairface_layout import FairFaceLayout
from fairgate.models.classifiers.fixed_labels import FixedLabelFiles, FixedLabelModel, Loaded
from fairgate.models.classifiers.label_names import LabelNames
from fairgate.models.contract import Capability, Request, register
from fairgate.models.reading import preprocessing_digest

CODE_VERSION = 1  # raise it when this adapter, or what it calls, gives other outputs for the same files
LIBRARIES = ("torchvision", "torch", "pillow")


@register
class FairFaceClassifiers:
    """The authors' checkpoints, and others of their layout."""

    scheme: ClassVar[str] = "fairface"
    forms: ClassVar[tuple[str, ...]] = ("fairface:FILE?races=7",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"predict"})

    def local_path(self, address: str) -> Path | None:
        """The file."""
        return Path(address.partition("?")[0])

    def open(self, request: Request) -> FixedLabelModel:
        """Find and hash a checkpoint. Raises ModelError; loading waits until outputs are needed."""
        address, options = split_options(request.uri, request.address, ("races",))
        races = FairFaceLayout.races_of(request.uri, address, options.get("races"))
        path = resolve(address, request.base)
        require_weights(path, request.allow_pickle)
        files = HashedFiles.of({"weights": path})
        named = {"race": FairFaceLayout.races[races], "gender": FairFaceLayout.genders, "age": FairFaceLayout.ages}
        return FixedLabelModel(
            FixedLabelFiles(
                fingerprint=digest({"files": files.fingerprint(), "races": races}),
                identity={"adapter": "fairface", "code": CODE_VERSION, "libraries": versions(*LIBRARIES)},
                heads={attribute: LabelNames.of(labels, None, request.uri) for attribute, labels in named.items()},
                load=partial(_load, files, races, request.allow_pickle),
                preprocessing=preprocessing_digest(adapter="fairface", pixels=FairFaceLayout.pixels),
            ),
            request,
        )


def _load(files: HashedFiles, races: int, allow_pickle: bool, device: Device) -> Loaded:
    from torchvision import transforms
    from torchvision.models import resnet34

    from fairgate.models.classifiers.bare_weights import loaded_into

    steps = [
        transforms.Resize((FairFaceLayout.pixels, FairFaceLayout.pixels)),
        transforms.ToTensor(),
        transforms.Normalize(FairFaceLayout.mean, FairFaceLayout.std),
    ]
    what = f"a ResNet-34 with {FairFaceLayout.outputs} outputs (FairFace)"
    build = partial(resnet34, num_classes=FairFaceLayout.outputs)
    whole = loaded_into(build, files, transforms.Compose(steps), device, what, allow_pickle=allow_pickle)
    used = [*range(races), *range(FairFaceLayout.first_gender, FairFaceLayout.outputs)]
    return Loaded(whole.prepare, lambda prepared: whole.outputs(prepared)[:, used])
