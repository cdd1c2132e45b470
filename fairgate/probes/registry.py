"""Kinds of probe by name. Each registers itself when it is imported; installed packages add theirs."""

from __future__ import annotations

from typing import Any, TypeVar

from fairgate.plugins import Registry
from fairgate.probes.contract import Probe

P = TypeVar("P", bound=Probe)

_KINDS = {
    "zero_shot_classification": "classification",
    "retrieval": "retrieval",
    "association": "association",
}


def _checked(name: str, thing: Any) -> type[Probe]:
    if not (isinstance(thing, type) and issubclass(thing, Probe)):
        raise TypeError("it is no subclass of fairgate.probes.Probe")
    if _kind(thing) != name:
        raise TypeError(f"its kind is '{_kind(thing)}'")
    return thing


def _kind(probe: type[Probe]) -> str:
    """The one value of a probe's `kind`, a Literal."""
    (kind,) = probe.model_fields["kind"].annotation.__args__  # type: ignore[union-attr] # a Literal
    return str(kind)


PROBES: Registry[type[Probe]] = Registry(
    "probe", {name: f"fairgate.probes.{module}" for name, module in _KINDS.items()}, _checked
)


def register(probe: type[P]) -> type[P]:
    """Class decorator: make a probe known by its kind. Raises FairgateError for a kind that is taken."""
    PROBES.register(_kind(probe), probe)
    return probe


def value_name(digest_kind: str) -> str:
    """What the number of an image is, of a probe that a record calls by this kind: `P(true)`, `cosine`, or `value`."""
    names: dict[str, str] = {}
    for kind in PROBES:
        names |= PROBES[kind].value_names
        if digest_kind in names:
            break
    return names.get(digest_kind, "value")
