"""A release of the images of some groups of another release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairgate.data.dataset import Dataset
from fairgate.data.defaults import ROOT
from fairgate.data.export import stored_rows
from fairgate.data.manifest import Manifest, check_name
from fairgate.data.releases import refuse_existing, write_dataset
from fairgate.ground.errors import DatasetError, suggestion


def rows_of_groups(dataset: Dataset, where: Mapping[str, Sequence[str]]) -> NDArray[np.int64]:
    """Rows that are of one of the groups named for every attribute, in stored order.

    Raises DatasetError for an attribute or a group that is not recorded, and where no row is left.
    """
    wanted = np.ones(len(dataset.index), dtype=np.bool_)
    for attribute, groups in where.items():
        codes, known = dataset.index.codes(attribute)
        if unknown := [group for group in groups if group not in known]:
            raise DatasetError(
                f"the release has no group '{unknown[0]}' of '{attribute}'.",
                where=f"--where {attribute}={','.join(groups)}",
                remedy=suggestion(unknown[0], known, f"recorded: {', '.join(known)}"),
            )
        wanted &= np.isin(codes, [known.index(group) for group in groups])
    if not wanted.any():
        raise DatasetError(
            "the release has no image of these groups together.",
            where=" ".join(f"--where {attribute}={','.join(groups)}" for attribute, groups in where.items()),
            remedy="name groups that it has images of (`fairgate dataset show NAME`)",
        )
    return np.flatnonzero(wanted)


def write_subset(
    dataset: Dataset, name: str, where: Mapping[str, Sequence[str]], *, root: Path = ROOT, version: str = "v1"
) -> Manifest:
    """Make `root/name/version` of the rows of these groups, unchanged; it declares the groups that were named.

    Sets that keep more than one member are counterfactual as they were. Raises DatasetError for groups that the
    dataset lacks, a dataset that is not what its manifest says, and a version that exists.
    """
    check_name(name, version)
    refuse_existing(root / name / version)
    rows, manifest = rows_of_groups(dataset, where), dataset.manifest
    dataset.require_intact()
    wanted = set(rows.tolist())

    def kept() -> Iterator[dict[str, object]]:
        for row, (picture, columns) in enumerate(stored_rows(dataset)):
            if row in wanted:
                yield {"image": picture, **columns}

    return write_dataset(
        root / name / version,
        kept(),
        name=name,
        version=version,
        attributes={
            attribute: [group for group in groups if group in where.get(attribute, groups)]
            for attribute, groups in manifest.attributes.items()
        },
        recipe={"kind": "subset", "of": manifest.ref, "where": {of: list(groups) for of, groups in where.items()}},
        licence=manifest.licence,
        counterfactual=manifest.counterfactual and len(set(dataset.index.member[rows])) > 1,
        notice=manifest.notice,
        lineage={**manifest.lineage, "subset of": f"{manifest.ref} {manifest.fingerprint}"},
        about=manifest.about,
    )
