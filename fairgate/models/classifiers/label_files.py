"""`?labels=FILE`: what a URI says of a classifier's outputs, and what becomes of its own names with it. No torch."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import sha256_file
from fairgate.models.checkpoints import is_hub_id, read_options, require_file, resolve
from fairgate.models.classifiers.label_names import LabelNames, require_plain

MAX_BYTES = 16 << 20


def option_paths(address: str, *files: str, folders: Collection[str] = ()) -> tuple[Path, ...]:
    """Files and folders that a URI's options name, as they are opened. `folders` are the options whose values are for
    `judged_folder`: of a model of the hub, `ORG/NAME@COMMIT`, there is no path."""
    said = read_options(address.partition("?")[2])
    return tuple(Path(value) for name, value in said if name in files or (name in folders and not is_hub_id(value)))


def named_outputs(own: list[str] | None, file: str | None, base: Path, where: str) -> tuple[LabelNames, dict[str, str]]:
    """The labels of a model's outputs, by `own` names and by a file of labels, and the digest of that file by role.

    Raises ModelError where neither names them, or where they do not fit together.
    """
    if file is None:
        if own is None:
            raise ModelError(
                "the checkpoint does not say what its outputs are called.",
                where=where,
                remedy="add ?labels=FILE: a list of all labels in the order of the outputs",
            )
        return LabelNames.of(own, None, where), {}
    path = resolve(file, base)
    require_file(path)
    said = {"labels": sha256_file(path)}
    listed, mapping = read_labels(path)
    if listed is not None and own is not None and len(listed) != len(own):
        raise ModelError(
            f"the file names {len(listed)} labels, and the model has {len(own)} outputs.",
            where=str(path),
            remedy="name all outputs, in their order",
        )
    names = listed if listed is not None else own
    if names is None:
        raise ModelError(
            "the file maps names to the model's labels, and the checkpoint does not say what these are.",
            where=str(path),
            remedy="write a list of all labels in the order of the outputs",
        )
    return LabelNames.of(names, mapping, str(path)), said


def read_labels(path: Path) -> tuple[list[str] | None, dict[str, list[str]] | None]:
    """What `?labels=FILE` says: names of all outputs in their order (a list, or lines of text), or a mapping of a
    suite's labels to the model's, each to one or to several whose probabilities are added. Raises ModelError."""
    if path.stat().st_size > MAX_BYTES:
        raise ModelError(f"the file has more than {MAX_BYTES >> 20} MB.", where=str(path), remedy="write labels alone")
    try:
        text = path.read_text(encoding="utf-8-sig")
        said = json.loads(text) if path.suffix == ".json" else [line for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the labels cannot be read ({error}).", where=str(path), remedy="write it again") from error
    if isinstance(said, list):
        require_plain(said, str(path))
        return said, None
    if isinstance(said, dict) and said:
        mapping = {name: [labels] if isinstance(labels, str) else labels for name, labels in said.items()}
        require_plain(["", *mapping][1:] + ["-"] * (len(mapping) < 2), str(path))
        if all(
            isinstance(found, list) and found and all(isinstance(x, str) for x in found) for found in mapping.values()
        ):
            return None, mapping
    raise ModelError(
        "the file holds neither a list of labels nor a mapping.",
        where=str(path),
        remedy='write ["chef", "doctor"], the names of all outputs in order, or {"doctor": ["physician", "surgeon"]}',
    )
