"""Names of a classifier's outputs, its own or those of `?labels=FILE`, or of a detector's classes, and how a suite's
labels find them. No torch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.ground.errors import ModelError, did_you_mean, harmless, listed
from fairgate.ground.hashing import digest, sha256_file
from fairgate.models.checkpoints import require_file, resolve

MOST = 100_000
"""Labels of a model: ImageNet-21k has 21,843."""
LONGEST = 500
MAX_BYTES = 16 << 20


def folded(label: str) -> str:
    """A label without what does not matter: case, white space at its ends and in rows, and `_` for a space.

    >>> folded("Latino_Hispanic") == folded("latino  hispanic")
    True
    """
    return " ".join(label.replace("_", " ").split()).casefold()


@dataclass(frozen=True, slots=True)
class LabelNames:
    """A classifier's labels in the order of its outputs, and the names by which suites ask for them: its own, or those
    of a mapping, each of one output or more."""

    own: tuple[str, ...]
    outputs: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, own: Sequence[str], mapping: Mapping[str, Sequence[str]] | None, where: str) -> LabelNames:
        """Raises ModelError for labels that are none, for two of one name, and for a mapping that does not fit."""
        require_plain(own, where)
        known = {folded(name): place for place, name in enumerate(own)}
        if len(known) < len(own):
            doubled = sorted({f"'{name}'" for place, name in enumerate(own) if known[folded(name)] != place})
            raise ModelError(
                f"two of the model's labels have one name: {listed(doubled)}.",
                where=where,
                remedy="name every output of the model differently, beyond case and `_` for a space",
            )
        if mapping is None:
            return cls(tuple(own), {name: (place,) for place, name in enumerate(own)})
        return cls(tuple(own), _mapped(own, known, mapping, where))

    @property
    def digest(self) -> str:
        """Digest of the names, their order and their outputs; not of their spelling, which no suite sees."""
        own = [folded(name) for name in self.own]
        return digest({"own": own, "outputs": {folded(name): list(found) for name, found in self.outputs.items()}})

    def find(self, label: str, where: str) -> tuple[int, ...]:
        """The outputs of a suite's label, up to case and `_` for a space. Raises ModelError where there are none."""
        found = {folded(name): outputs for name, outputs in self.outputs.items()}
        if folded(label) not in found:
            raise ModelError(
                f"the model has no label '{label}'.",
                where=where,
                remedy=_nearest(label, self.outputs)
                + 'a classifier with fixed labels needs `template: "{label}"` and its own labels; where they have '
                "other names, say so with ?labels=FILE.json",
            )
        return found[folded(label)]


def _nearest(label: str, known: Mapping[str, Any]) -> str:
    """The start of a remedy: a label that is meant, or that a prompt holds (`a photo of a chef`), or some of all."""
    held = [name for name in known if f" {folded(name)} " in f" {folded(label)} "]
    near = f"did you mean '{max(held, key=len)}'?" if held else did_you_mean(label, known)
    return f"{near} " if near else f"its labels: {listed(list(known))}; "


def _mapped(
    own: Sequence[str], known: Mapping[str, int], mapping: Mapping[str, Sequence[str]], where: str
) -> dict[str, tuple[int, ...]]:
    """The outputs of every name of a mapping, and of the labels that it does not mention."""
    for name, label in ((name, label) for name, labels in mapping.items() for label in labels):
        if folded(label) not in known:
            raise ModelError(
                f"'{name}' is mapped to '{label}', which is no label of the model.",
                where=where,
                remedy=did_you_mean(label, own) or f"its labels: {listed(list(own))}",
            )
    outputs = {name: tuple(known[folded(label)] for label in labels) for name, labels in mapping.items()}
    taken = Counter(place for places in outputs.values() for place in places)
    outputs |= {name: (place,) for place, name in enumerate(own) if place not in taken}
    if doubled := [own[place] for place, times in taken.items() if times > 1]:
        raise ModelError(
            f"the model's label '{doubled[0]}' is mapped twice.",
            where=where,
            remedy="give every label of the model to one name of the suite",
        )
    every = Counter(folded(name) for name in (*mapping, *(name for name in own if known[folded(name)] not in taken)))
    if doubled := [name for name in mapping if every[folded(name)] > 1]:
        raise ModelError(
            f"'{doubled[0]}' is twice a name of the mapping, or also that of another label of the model.",
            where=where,
            remedy="map that label too, or take another name",
        )
    return outputs


def require_plain(labels: Sequence[Any], where: str) -> None:
    odd = [one for one in labels if not isinstance(one, str) or not one.strip() or harmless(one, LONGEST) != one]
    if odd or not 2 <= len(labels) <= MOST:
        fault = f"one of them is {str(odd[0])[:40]!r}" if odd else f"there are {len(labels):,}"
        raise ModelError(
            f"the model's labels are not two or more plain texts ({fault}).",
            where=where,
            remedy=f"name each of the model's outputs, in at most {LONGEST} characters without control characters",
        )


def named_outputs(
    own: list[str] | None, file: str | None, base: Path, where: str, outputs: int | None = None
) -> tuple[LabelNames, dict[str, str]]:
    """The labels of a model's outputs, by `own` names and by a file of labels, and the digest of that file by role.

    Raises ModelError if neither names them, or if they are not as many as the `outputs`, if these are known.
    """
    mapping, declared = None, dict[str, str]()
    outputs = len(own) if outputs is None and own is not None else outputs
    if file is not None:
        path = resolve(file, base)
        require_file(path)
        where, declared = str(path), {"labels": sha256_file(path)}
        names, mapping = read_labels(path)
        own = own if names is None else names
    if own is None:
        raise ModelError(
            "the checkpoint does not say what its outputs are called.",
            where=where,
            remedy="add ?labels=FILE: a list of all labels in the order of the outputs",
        )
    if len(own) != (len(own) if outputs is None else outputs):
        raise ModelError(
            f"{len(own)} labels are named, and the model has {outputs} outputs.",
            where=where,
            remedy="name all outputs, in their order",
        )
    return LabelNames.of(own, mapping, where), declared


def in_order(names: Mapping[str, str]) -> list[str] | None:
    """Labels by their places, "0", "1", ..., as a list; None where one is missing."""
    order = [str(place) for place in range(len(names))]
    return [names[place] for place in order] if set(names) == set(order) else None


def read_labels(path: Path) -> tuple[list[str] | None, dict[str, list[str]] | None]:
    """What `?labels=FILE` says: names of all outputs in their order (a list, or lines of text), or a mapping of a
    suite's labels to the model's, each to one or to several whose probabilities are added. Raises ModelError."""
    if path.stat().st_size > MAX_BYTES:
        raise ModelError(f"the file has more than {MAX_BYTES >> 20} MB.", where=str(path), remedy="write labels alone")
    try:
        text = path.read_text(encoding="utf-8-sig")
        declared = json.loads(text) if path.suffix == ".json" else [line for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the labels cannot be read ({error}).", where=str(path), remedy="write it again") from error
    if isinstance(declared, list):
        require_plain(declared, str(path))
        return declared, None
    if isinstance(declared, dict) and declared:
        mapping = {name: [labels] if isinstance(labels, str) else labels for name, labels in declared.items()}
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


def class_names(config: Mapping[str, Any], where: str) -> dict[int, str]:
    """The names of a model's classes, by number, as its config gives them. Raises ModelError for one without."""
    given = config.get("id2label")
    try:
        found = {int(number): str(name) for number, name in given.items()} if isinstance(given, dict) else {}
    except ValueError:
        found = {}
    if not found:
        raise ModelError(
            "the config does not name the classes that the model detects (id2label).",
            where=where,
            remedy="save the model with its labels: config.id2label = {0: 'person', ...}",
        )
    return found


def class_number(names: Mapping[int, str], what: str, where: str) -> int:
    """The number of a class by its name. Raises ModelError where no class, or more than one, is called so."""
    found = [number for number, name in names.items() if name == what]
    if len(found) != 1:
        raise ModelError(
            f"{'no class' if not found else f'{len(found)} classes'} of the model {'are' if found else 'is'} called "
            f"'{what}'.",
            where=where,
            remedy=did_you_mean(what, names.values()) or f"its classes: {listed(list(names.values()), 8)}",
        )
    return found[0]
