"""Where a build's files lie: `build/NAME/SUBJECT/PART/`, and `build/NAME/dataset/`.

A part's folder holds shards, each with a log of its sets next to it, written whole and read with distrust. Watchers
say what a build reports while it runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from fairgate.builds.steps import Drop, SetRows, Trace
from fairgate.ground.atomic import atomic_write, remove
from fairgate.ground.errors import RecipeError, did_you_mean, disk_errors
from fairgate.ground.hashing import digest, read_bounded, sha256_file

PART_FILE = "part.json"
EARLIER_CODE = "earlier_code"
"""Digests of the recipe's code before it changed, of shards that were kept since one, made again, was equal."""
_OURS = re.compile(r"shard-(\d{5,})\.(?:parquet|json)")
MAX_BYTES = 1 << 28


class _Logged(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class SetRecord(_Logged):
    """The outcome of one starting set: accepted (`reason` is None), or dropped for a reason.

    `also` are members that failed like `member`. `groups[m]` are member m's groups, one per attribute of the ledger;
    None where it had none yet.
    """

    set_id: str
    step: str | None = None
    reason: str | None = None
    measured: float | None = None
    limit: float | None = None
    member: str | None = None
    also: list[str] = []
    numbers: dict[str, float] = {}
    members: list[str] = []
    groups: list[list[str | None]] = []

    @property
    def kept(self) -> bool:
        return self.reason is None

    def trace(self, subject: str) -> Trace:
        """As `Part.choose` sees it."""
        why = (self.measured, self.limit, self.member, tuple(self.also))
        drop = None if self.reason is None else Drop(self.reason, *why)
        return Trace(self.set_id, subject, self.step, drop, self.numbers, tuple(self.members))


class Ledger(_Logged):
    """A finished shard. `starts` is the digest of the starting sets; `file` is None where all were dropped.

    `seconds` is the time that a worker took. It is no part of the content.
    """

    plan: str
    index: int
    starts: str
    content: str
    file: str | None
    sha256: str | None
    bytes: int
    attributes: list[str]
    counts: dict[str, int]
    seconds: float
    sets: list[SetRecord]

    @property
    def kept_ids(self) -> list[str]:
        """Ids of the accepted sets, in stored order."""
        return [record.set_id for record in self.sets if record.kept]


def starts_digest(sets: list[SetRows]) -> str:
    """The name of a shard's starting sets."""
    return digest([rows.set_id for rows in sets])


def record_of(trace: Trace, rows: SetRows, attributes: list[str]) -> SetRecord:
    """A trace with the groups of its members, as far as they are known by then."""
    why = {} if trace.drop is None else asdict(trace.drop)
    return SetRecord(
        set_id=trace.set_id,
        step=trace.step,
        **why,
        numbers=trace.numbers,
        members=list(trace.members),
        groups=[
            [group if isinstance(group := row.get(name), str) else None for name in attributes] for row in rows.rows
        ]
        if attributes
        else [],
    )


def read_ledger(path: Path) -> Ledger | None:
    """The ledger in a file, or None for what is none: absent, cut short, of another form."""
    try:
        return Ledger.model_validate_json(read_bounded(path, MAX_BYTES))
    except (OSError, ValidationError):
        return None


def storing(folder: Path) -> AbstractContextManager[None]:
    """Turns an OSError (full disk, read-only folder) into a RecipeError that says how to go on."""
    remedy = "make room, or write elsewhere with --out; then run it again: finished shards are kept"
    return disk_errors(RecipeError, "the build cannot be written", folder, remedy)


class ShardStore:
    """The shards of one part that were made under one plan. A file that does not match its ledger counts as absent."""

    def __init__(self, folder: Path, plan: Mapping[str, Any]) -> None:
        self.folder, self._plan = folder, dict(plan)
        self.digest = digest(self._plan)

    def open(self) -> None:
        """Make the folder, say under which plan, and clear away drafts of killed runs."""
        with storing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            for draft in self.folder.glob(".*.fairgate-draft"):  # a build holds the lock: nobody is writing them
                remove(draft)
        if read_part(self.folder).get("plan") != self.digest:
            self.write_facts({"complete": False})

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        recorded = read_part(self.folder)
        if recorded.get("plan") == self.digest and (earlier := earlier_code(recorded)):
            facts = {EARLIER_CODE: earlier, **facts}
        content = {"plan": self.digest, **facts, "depends_on": self._plan}
        with storing(self.folder):
            atomic_write(self.folder / PART_FILE, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def ledger(self, index: int, starts: str) -> Ledger | None:
        """The ledger of a finished shard, or None where it must be made: absent, damaged, or made from other sets."""
        ledger = read_ledger(shard_path(self.folder, index, "json"))
        if ledger is None or (ledger.plan, ledger.index, ledger.starts) != (self.digest, index, starts):
            return None
        if ledger.file is None:
            return None if ledger.kept_ids else ledger
        path = shard_path(self.folder, index, "parquet")
        if ledger.file != path.name or not path.is_file() or path.stat().st_size != ledger.bytes:
            return None
        return ledger if sha256_file(path) == ledger.sha256 else None

    def ledgers_of(self, plan: str | None = None) -> Iterator[Ledger]:
        """The ledgers here that can be read, in order: those of a plan, or all."""
        ledgers = map(read_ledger, sorted(self.folder.glob("shard-*.json")))
        return (ledger for ledger in ledgers if ledger is not None and plan in (None, ledger.plan))

    def take_over(self, recorded: Mapping[str, Any], compared: Ledger) -> int:
        """Let a recorded plan's shards count as this plan's; how many. `part.json` names the code that made them.

        Of a run that is killed here, `compared` is still the recorded plan's: the next run goes on.
        """
        earlier = {*earlier_code(recorded), str(recorded["depends_on"].get("code"))} - {self._plan["code"]}
        others = [ledger for ledger in self.ledgers_of(recorded["plan"]) if ledger.index != compared.index]
        for ledger in others:
            self._adopt(ledger)
        stocked = recorded.get("stocked", recorded.get("shards", 0))
        self.write_facts({"complete": False, "stocked": stocked, EARLIER_CODE: sorted(earlier)})
        self._adopt(compared)
        return len(others) + 1

    def _adopt(self, ledger: Ledger) -> None:
        with storing(self.folder):
            log = shard_path(self.folder, ledger.index, "json")
            atomic_write(log, _text(ledger.model_copy(update={"plan": self.digest})))

    def write(self, ledger: Ledger, parquet: bytes | None) -> None:
        """Write a shard, then its ledger. Raises RecipeError where the disk does not take them."""
        path, log = (shard_path(self.folder, ledger.index, suffix) for suffix in ("parquet", "json"))
        with storing(self.folder):
            log.unlink(missing_ok=True)
            if parquet is None:
                path.unlink(missing_ok=True)
            else:
                atomic_write(path, parquet)
            atomic_write(log, _text(ledger))

    @property
    def stocked(self) -> int:
        """The most shards that a finished run under this plan needed: a lower number of sets discards none of them."""
        recorded = read_part(self.folder)
        number = recorded.get("stocked", recorded.get("shards", 0)) if recorded.get("plan") == self.digest else 0
        return number if isinstance(number, int) else 0

    def keep_first(self, number: int) -> None:
        """Remove every shard from `number` on: they were made before it was known that the part needs fewer."""
        for path in self.folder.iterdir():
            match = _OURS.fullmatch(path.name)
            if match and int(match[1]) >= number:
                with storing(self.folder):
                    path.unlink()


def _text(ledger: Ledger) -> str:
    return ledger.model_dump_json(exclude_defaults=True) + "\n"


def shard_path(folder: Path, index: int, suffix: str) -> Path:
    return folder / f"shard-{index:05d}.{suffix}"


def finished_ledgers(folder: Path) -> Iterator[Ledger]:
    """The ledgers of a finished part, in order. Raises RecipeError for one that is missing."""
    for index in range(int(read_part(folder).get("shards", 0))):
        path = shard_path(folder, index, "json")
        ledger = read_ledger(path)
        if ledger is None:
            raise RecipeError(
                "a ledger of a finished shard is missing or damaged.",
                where=str(path),
                remedy="run the build again: the shard is made again",
            )
        yield ledger


def read_part(folder: Path) -> dict[str, Any]:
    """What `part.json` says; empty where there is none, or none that can be read."""
    try:
        recorded = json.loads((folder / PART_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return recorded if isinstance(recorded, dict) else {}


def earlier_code(recorded: Mapping[str, Any]) -> list[str]:
    """The digests under `EARLIER_CODE` of what `part.json` says."""
    codes = recorded.get(EARLIER_CODE)
    return [code for code in codes if isinstance(code, str)] if isinstance(codes, list) else []


class Watcher(Protocol):
    """Receives the progress of a build: every part that begins or ends, every finished shard. Parts of several subjects
    may be built at once."""

    def part(self, subject: str, part: str, *, wanted_sets: int | None, shards: int | None) -> None:
        """A part begins. It ends with `wanted_sets` accepted sets or after `shards`; None where that is not known."""

    def shard(self, subject: str, part: str, ledger: Ledger, *, images: int, found: bool) -> None:
        """A shard is finished: `images` in its accepted sets; `found` where an earlier run had made it."""

    def end(self, subject: str, part: str) -> None:
        """A part ends."""

    def note(self, text: str) -> None:
        """A sentence that the one who builds should read."""


class SilentWatcher(Watcher):
    """A watcher that reports nothing."""


DATASET = "dataset"


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of one build. A limited build has a folder of its own: it is never taken for a full one."""

    root: Path

    @property
    def dataset(self) -> Path:
        return self.root / DATASET

    def part(self, subject: str, part: str) -> Path:
        return self.root / slug(subject) / part

    def aside(self, plan: str, subject: str, part: str) -> Path:
        """Where shards of another plan wait."""
        return self.root / ".aside" / plan[:12] / slug(subject) / part

    @contextmanager
    def locked(self, names: Sequence[str]) -> Iterator[None]:
        """Hold the locks of some subjects (or of the dataset). Raises RecipeError where another build holds one."""
        from filelock import FileLock, Timeout

        locks = self.root / ".locks"
        with ExitStack() as locks_taken:
            for name in names:
                with storing(locks):
                    locks.mkdir(parents=True, exist_ok=True)
                    try:
                        locks_taken.enter_context(FileLock(locks / f"{slug(name)}.lock", timeout=0))
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
