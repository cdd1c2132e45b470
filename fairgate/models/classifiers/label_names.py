"""Names of a classifier's outputs, and how a suite's labels find them. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairgate.ground.errors import ModelError, did_you_mean, harmless, listed
from fairgate.ground.hashing import digest

MOST = 100_000
"""Labels of a model: ImageNet-21k has 21,843."""
LONGEST = 500


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
    outputs: dict[str, tuple[int, ...]] = {}
    taken: dict[int, str] = {}
    for name, labels in mapping.items():
        for label in labels:
            place = known.get(folded(label))
            if place is None:
                raise ModelError(
                    f"'{name}' is mapped to '{label}', which is no label of the model.",
                    where=where,
                    remedy=did_you_mean(label, own) or f"its labels: {listed(list(own))}",
                )
            if place in taken:
                raise ModelError(
                    f"the model's label '{label}' is mapped twice, to '{taken[place]}' and '{name}'.",
                    where=where,
                    remedy="give every label of the model to one name of the suite",
                )
            taken[place] = name
        outputs[name] = tuple(known[folded(label)] for label in labels)
    rest = {name: (place,) for place, name in enumerate(own) if place not in taken}
    every = Counter(folded(name) for name in (*outputs, *rest))
    if doubled := [name for name in outputs if every[folded(name)] > 1]:
        raise ModelError(
            f"'{doubled[0]}' is twice a name of the mapping, or also that of another label of the model.",
            where=where,
            remedy="map that label too, or take another name",
        )
    return {**outputs, **rest}


def require_plain(labels: Sequence[Any], where: str) -> None:
    odd = [one for one in labels if not isinstance(one, str) or not one.strip() or harmless(one, LONGEST) != one]
    if odd or not 2 <= len(labels) <= MOST:
        fault = f"one of them is {str(odd[0])[:40]!r}" if odd else f"there are {len(labels):,}"
        raise ModelError(
            f"the model's labels are not two or more plain texts ({fault}).",
            where=where,
            remedy=f"name each of the model's outputs, in at most {LONGEST} characters without control characters",
        )
