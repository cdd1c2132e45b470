"""Where a build's files lie: `build/NAME/SUBJECT/PART/`, and `build/NAME/dataset/`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairgate.builds.shard_store import storing
from fairgate.errors import RecipeError, did_you_mean

DATASET = "dataset"


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of one build. A limited build has a folder of its own: it is never taken for a full one."""

    root: Path

    @classmethod
    def of(cls, out: Path, name: str, limit: int | None) -> Places:
        """`out/NAME`, or `out/NAME-limit-N`."""
        return cls(out / (name if limit is None else f"{name}-limit-{limit}"))

    @property
    def dataset(self) -> Path:
        return self.root / DATASET

    def part(self, subject: str, part: str) -> Path:
        return self.root / slug(subject) / part

    def aside(self, plan: str, subject: str, part: str) -> Path:
        """Where shards of another plan wait."""
        return self.root / ".aside" / plan[:12] / slug(subject) / part

    @contextmanager
    def held(self, names: Sequence[str]) -> Iterator[None]:
        """Hold the locks of some subjects (or of the dataset). Raises RecipeError where another build holds one."""
        from filelock import FileLock, Timeout

        locks = self.root / ".locks"
        with ExitStack() as held:
            for name in names:
                with storing(locks):
                    locks.mkdir(parents=True, exist_ok=True)
                    try:
                        held.enter_context(FileLock(locks / f"{slug(name)}.lock", timeout=0))
                    except Timeout:
                        raise RecipeError(
                            f"another process is building '{name}' of '{self.root.name}'.",
                            where=str(locks),
                            remedy="wait for it, build another --subject, or stop it: nothing of it is lost",
                        ) from None
            yield


def slug(subject: str) -> str:
    """A subject as the name of a folder.

    >>> slug("Car Mechanic (male)")
    'car-mechanic-male'
    """
    return re.sub(r"[^a-z0-9_]+", "-", subject.lower()).strip("-") or "subject"


def require_different_folders(subjects: Sequence[str]) -> None:
    """Raise RecipeError where two subjects would share a folder, or one would take the dataset's."""
    taken = {DATASET: "the finished dataset"}
    for subject in subjects:
        if (other := taken.setdefault(slug(subject), subject)) != subject:
            raise RecipeError(
                f"subjects '{other}' and '{subject}' would share a folder.",
                where="the recipe's subjects",
                remedy="name them differently: letters, digits and _ count, capitals do not",
            )


def pick(names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """The `known` names that `names` selects, by name or by folder name, in the recipe's order; all for no names.

    Raises RecipeError for an unknown one.
    """
    for each in names:
        if each not in known and each not in map(slug, known):
            shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
            raise RecipeError(
                f"there is no {what} '{each}'.",
                where=f"--{what}",
                remedy=did_you_mean(each, known) or f"{what}s: {shown}",
            )
    return [each for each in known if not names or each in names or slug(each) in names]
