"""What a build tells while it runs."""

from __future__ import annotations

from typing import Protocol

from fairgate.factory.ledger import Ledger


class Watcher(Protocol):
    """Hears of every part that begins and every shard that is finished, here or in an earlier run."""

    def part(self, subject: str, part: str, *, wanted_sets: int | None, shards: int | None) -> None:
        """A part begins. It ends with `wanted_sets` kept sets or after `shards`; None where that is not known."""
        ...

    def shard(self, ledger: Ledger, *, images: int, found: bool) -> None:
        """A shard is finished: `images` in its kept sets; `found` where an earlier run had made it."""
        ...

    def note(self, text: str) -> None:
        """A sentence that the one who builds should read."""
        ...


class Quiet:
    """Tells nobody."""

    def part(self, subject: str, part: str, *, wanted_sets: int | None, shards: int | None) -> None:
        """Nothing."""

    def shard(self, ledger: Ledger, *, images: int, found: bool) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""
