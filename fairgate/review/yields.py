"""The card's section on yield: how much of what was made was kept, per group and reason, as the build wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class YieldSection:
    """The section's Markdown, and the SHA-256 of the file that it tells of."""

    text: str
    sha256: str


def yield_section(folder: Path) -> YieldSection | None:
    """`## Yield` of a build's folder, None where no yields stand there."""
    if not (folder / "yield.json").is_file():
        return None
    return None
