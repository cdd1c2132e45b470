"""Pictures inside the page: which sets, and how large, so that the file stays one that can be mailed."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairgate.records import CheckResult, WorstSet

PictureSource = Callable[[Sequence[str]], Mapping[str, Sequence[tuple[str, bytes]]]]
"""Given set ids, the encoded pictures of each set as (member, bytes); sets without pictures are left out."""

MOST_SETS: Final = 24
_SIDES: Final = (256, 160, 96)
_MAGIC: Final = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}


@dataclass(frozen=True, slots=True)
class Album:
    """Data URIs by (set, member). `unreadable` pictures could not be decoded; sets of `left_out` did not fit."""

    uris: Mapping[tuple[str, str], str]
    unreadable: frozenset[tuple[str, str]] = frozenset()
    left_out: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        """Whether there was no picture to be had."""
        return not (self.uris or self.unreadable or self.left_out)


def shown_sets(check: CheckResult) -> list[WorstSet]:
    """The worst few sets of a check that did not pass: three rows of pictures, or six single images."""
    if check.verdict == "pass":
        return []
    single = all(len(worst.members) == 1 for worst in check.worst_sets)
    return check.worst_sets[: 6 if single else 3]


def wanted_sets(checks: Iterable[CheckResult]) -> list[str]:
    """The sets that the page lists: the worst few of each check that did not pass, in reading order, each once."""
    return list(dict.fromkeys(worst.set_id for check in checks for worst in shown_sets(check)))


def album(given: Mapping[str, Sequence[tuple[str, bytes]]], set_ids: Sequence[str], budget: int) -> Album:
    """The pictures of these sets (24 of them at most) as data URIs of at most `budget` characters together.

    Pictures that are small enough stay as they are. Otherwise larger ones are made smaller, step by step, and at last
    sets are left out from the end.
    """
    raw = {(set_id, member): data for set_id in set_ids[:MOST_SETS] for member, data in given.get(set_id, ())}
    encoded = {place: _as_they_are(data) for place, data in raw.items()}
    unreadable = frozenset(place for place, uri in encoded.items() if uri is None)
    uris = {place: uri for place, uri in encoded.items() if uri is not None}
    for side in _SIDES:
        if _size(uris) <= budget:
            break
        smaller = {place: _reencoded(raw[place], side) for place in uris}
        unreadable |= {place for place, uri in smaller.items() if uri is None}
        uris = {place: min(uris[place], uri, key=len) for place, uri in smaller.items() if uri is not None}
    left_out = set(set_ids[MOST_SETS:]) if raw else set()
    while _size(uris) > budget:
        last = next(reversed(uris))[0]
        left_out.add(last)
        uris = {place: uri for place, uri in uris.items() if place[0] != last}
    return Album(uris, unreadable, frozenset(left_out))


def _size(uris: Mapping[tuple[str, str], str]) -> int:
    return sum(map(len, uris.values()))


def _as_they_are(data: bytes) -> str | None:
    """A data URI of a raster format that every browser draws; others are decoded and written as PNG.

    None for what is no picture, or unpacks to more pixels than are decoded anywhere: a browser would try.
    """
    from fairgate.data import require_bounded

    kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "webp"
    if kind is None:
        return _reencoded(data, None)
    try:
        require_bounded(data)
    except ValueError:
        return None
    return _uri(kind, data)


def _reencoded(data: bytes, side: int | None) -> str | None:
    from fairgate.data import decode

    try:
        picture = decode(data).convert("RGB")
    except ValueError:
        return None
    buffer = io.BytesIO()
    if side is None:
        picture.save(buffer, "PNG")
        return _uri("png", buffer.getvalue())
    picture.thumbnail((side, side))
    picture.save(buffer, "JPEG", quality=82)
    return _uri("jpeg", buffer.getvalue())


def _uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
