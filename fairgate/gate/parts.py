"""One record from several jobs, or workers of a cluster: each scores its shard of the images; merging decides.

A part holds the cache entries of its shard (`fairgate.models.shards`), and what they were made of. Merging takes
the way of every check, with a cache that the parts fill: what no part has is scored there, such as a baseline's
checkpoint with another tokenizer. Parts are evidence as the cache is: merging reads the folders that are named, outside
of the repository, and with FAIRGATE_CACHE_KEY only parts that the key sealed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from fairgate import models
from fairgate.gate.evaluation import Evaluation, evaluate
from fairgate.gate.model_runs import CandidateRun, Progress, open_model, packages
from fairgate.gate.preparation import Distribution, Prepared, require_intact
from fairgate.gate.scoring import compare_with
from fairgate.ground.atomic import atomic_write, remove
from fairgate.ground.errors import FairgateError, NoVerdict, SettingsError, disk_errors, listed
from fairgate.ground.hashing import digest, read_bounded, sha256_file
from fairgate.ground.seals import is_sealed, seal
from fairgate.models.checkpoints import Device, find_device, repositories_of
from fairgate.records import Against, RecordPart
from fairgate.suites import Settings
from fairgate.tracking import environment
from fairgate.version import __version__

FILE: Final = "part.json"
ENTRIES = "part-entries"
_MOST_BYTES = 64 << 20
MOST_JOBS = 10_000
_SCORE = "`fairgate check SUITE --shard K/N --report DIR`"
_AGAIN = f"run {_SCORE} again for this part, as for the others"
_ALL_AGAIN = f"run {_SCORE} again for all of them, on one commit and installation"
_SAME_OPTIONS = f"give `fairgate merge` the jobs' options (--model, --baseline, --base); else {_ALL_AGAIN}"

_ELSEWHERE = (
    "the parts lack numbers that this run needs: run `fairgate merge` on a machine with a GPU, or run all shards again "
    "with `fairgate check --device cpu`"
)

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
EntryName = Annotated[str, Field(pattern=r"^[a-z]{1,20}(/[A-Za-z0-9_-]{1,80}){1,3}$")]


class ScoredPart(RecordPart):
    """`part.json`: which shard of how many, what it was made of by name, and the SHA-256 of each entry's file."""

    schema_version: Literal[1] = 1
    suite: str
    shard: int = Field(ge=1)
    shards: int = Field(ge=1, le=MOST_JOBS)
    device: str
    precision: str
    inputs: dict[str, str]
    entries: dict[EntryName, Sha256]
    seal: str = ""

    @property
    def content(self) -> dict[str, Any]:
        """What the seal is of: everything else."""
        return self.model_dump(mode="json", exclude={"seal"})


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A part, and the folder that it was read from."""

    folder: Path
    part: ScoredPart

    @property
    def words(self) -> str:
        """`part 3/16`."""
        return f"part {self.part.shard}/{self.part.shards}"


def read_shard(text: str) -> tuple[int, int]:
    """The job's number and how many there are, of `3/16`. Raises SettingsError."""
    match = re.fullmatch(r"0*(\d{1,5})/0*(\d{1,5})", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count <= MOST_JOBS:
        raise SettingsError(
            f"'{text}' is not a shard.",
            where="--shard",
            remedy=f"write K/N, with K from 1 to N, and N at most {MOST_JOBS:,}: --shard 3/16",
        )
    return number, count


def score_shard(
    prepared: Prepared,
    settings: Settings,
    shard: tuple[int, int],
    folder: Path,
    progress: Progress | None = None,
    known: Collection[str] = (),
) -> ScoredPart:
    """Score a shard of the images for every model that the run needs, and keep the entries in a folder; those that are
    `known` where the parts meet are not made again. Nothing is compared or decided: a comparison that fails here fails
    again where the parts meet, which reports it.

    Raises a FairgateError for a candidate that cannot be scored, and a folder that cannot be written.
    """
    device, cache = find_device(settings.device), models.PartCache(folder, prepared.root, settings.cache, known)
    prepared = prepared.spread(Distribution(cache, device, shard))
    if prepared.trouble is not None:
        raise prepared.trouble
    inputs = _inputs(prepared, settings, progress)
    for each in (prepared, *prepared.on_base_data):
        run = CandidateRun(each, settings, progress, open_model(settings.model, each, settings, progress))
        anchors = dict.fromkeys(definition.loaded.suite.anchor or "none" for definition in each.definitions)
        compared: list[tuple[str, Against]] = [(settings.baseline, "baseline"), *((spec, "anchor") for spec in anchors)]
        for spec, against in compared:
            with contextlib.suppress(FairgateError):
                compare_with(spec, run, against)
    return ScoredPart(
        suite=prepared.loaded.name,
        shard=shard[0],
        shards=shard[1],
        device=device.name,
        precision=device.precision,
        inputs=inputs,
        entries={name: sha256_file(folder / f"{name}.safetensors") for name in models.names_in(folder)},
    )


def write_part(prepared: Prepared, settings: Settings, shard: tuple[int, int], progress: Progress | None = None) -> str:
    """Score a shard and write its part into the report folder; what was written, in a sentence.

    Raises SettingsError without such a folder, or if it is in the repository or cannot be written, NoVerdict for what
    cannot be scored.
    """
    if settings.report is None:
        raise SettingsError(
            "a shard is written into a folder, and none was named.", where="--shard", remedy="add --report DIR"
        )
    if _inside(settings.report, prepared.root):
        raise SettingsError(
            "the part would be inside of the repository, and `fairgate merge` reads none there.",
            where=str(settings.report),
            remedy="name a folder outside of it (--report DIR)",
        )
    folder, remedy = settings.report / ENTRIES, "make room there, or name another folder"
    on_disk = partial(disk_errors, SettingsError, "the part cannot be written", folder, remedy)
    with on_disk():
        remove(settings.report / FILE)
        if folder.is_symlink():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    try:
        part = score_shard(prepared, settings, shard, folder, progress)
        part = part.model_copy(update={"seal": seal(models.cache_key(prepared.root), part.content)})
    except FairgateError as error:
        raise NoVerdict(error.problem, where=error.where, remedy=error.remedy) from error
    with on_disk():
        atomic_write(settings.report / FILE, part.model_dump_json(indent=1) + "\n")
    return (
        f"{part.suite}: part {part.shard}/{part.shards} is in {settings.report}; it decides nothing: "
        "`fairgate merge DIR...` does, with all parts"
    )


def read_parts(folders: Sequence[Path], root: Path) -> list[ReadPart]:
    """The parts in some folders, in order. Raises NoVerdict for one that cannot be read, of another suite or number of
    shards than the first, missing or doubled, and in the repository, where a branch can commit it."""
    parts = sorted((_read(folder, root) for folder in folders), key=lambda read: read.part.shard)
    if not parts:
        raise NoVerdict("no part was named.", where="fairgate merge", remedy="name the folder of each: DIR...")
    first, counts = parts[0], dict[int, list[Path]]()
    for read in parts:
        counts.setdefault(read.part.shard, []).append(read.folder)
        for what, of_first, own in (
            ("suite", first.part.suite, read.part.suite),
            ("number of shards", first.part.shards, read.part.shards),
        ):
            if of_first != own:
                raise _other(read, what, str(own), str(of_first))
    if twice := next((places for places in counts.values() if len(places) > 1), None):
        raise NoVerdict(
            f"a part is there twice: {first.part.suite}, also in {twice[0]}.",
            where=str(twice[1]),
            remedy="name the folder of each part once",
        )
    if missing := [str(number) for number in range(1, first.part.shards + 1) if number not in counts]:
        raise NoVerdict(
            f"{len(missing):,} of {first.part.shards:,} parts are missing: {listed(missing)}.",
            where="fairgate merge",
            remedy="name the folders of all parts; run again the jobs that failed",
        )
    return parts


def evaluate_parts(
    parts: Sequence[ReadPart],
    prepared: Prepared,
    settings: Settings,
    *,
    progress: Progress | None = None,
    user: Path | None = None,
) -> Evaluation:
    """Evaluate as every check does, on what the parts hold, and the cache of the `user`.

    Raises NoVerdict for parts that were made of other inputs than this run's, or changed since.
    """
    with tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True) as scratch:
        cache = models.CacheAbove(Path(scratch), prepared.root, user)
        device = Device(parts[0].part.device, parts[0].part.precision, _ELSEWHERE)
        spread = prepared.spread(Distribution(cache, device))
        wanted = {**_inputs(spread, settings, progress), "device": f"{device.name}, {device.precision}"}
        for number, read in enumerate(parts, start=1):
            made_of = {**read.part.inputs, "device": f"{read.part.device}, {read.part.precision}"}
            for what in sorted({*wanted, *made_of}):
                if made_of.get(what) != wanted.get(what):
                    raise _other(read, what, made_of.get(what), wanted.get(what))
            _take(read, cache, prepared.root)
            if progress is not None:
                progress("parts", number, len(parts))
        return evaluate(spread, settings, progress=progress)


def _inputs(prepared: Prepared, settings: Settings, progress: Progress | None) -> dict[str, str]:
    """What decides the numbers of a part, by its name in messages."""
    for each in (prepared, *prepared.on_base_data):
        require_intact(each.dataset, settings, each.root, progress)
    model = open_model(settings.model, prepared, settings)
    if getattr(model, "served", None):
        raise NoVerdict(
            "nothing shows that one model behind a server answers all parts of a run.",
            where=settings.model,
            remedy="run it in one job: several requests are made at once",
        )
    place = environment(prepared.root, model.device)
    data = [each.dataset.fingerprint for each in (prepared, *prepared.on_base_data)]
    plain = {
        "version of fairgate": __version__,
        "suite": [definition.loaded.digest for definition in prepared.every_definition],
        "dataset": data,
        "checkpoint": [model.fingerprint, model.preparation, model.precision],
        "address of the model": settings.model,
        "baseline": settings.baseline,
        "versions of libraries": place.packages,
        "packages": packages(prepared, settings),
    }
    return {what: value if isinstance(value, str) else digest(value)[:16] for what, value in plain.items()}


def _other(read: ReadPart, what: str, own: str | None, wanted: str | None) -> NoVerdict:
    than = f"than this run or the other parts ({wanted or 'none'})"
    problem = f"{read.words} was made of another {what} ({own or 'none'}) {than}."
    return NoVerdict(problem, where=str(read.folder), remedy=_SAME_OPTIONS)


def _read(folder: Path, root: Path) -> ReadPart:
    path = folder / FILE
    if _inside(folder, root):
        raise NoVerdict(
            "the part is inside of the repository, where a branch can commit one of its own.",
            where=str(folder),
            remedy="download parts into a folder outside of it",
        )
    try:
        if path.is_fifo():
            raise ValueError("it is a pipe")
        part = ScoredPart.model_validate(json.loads(read_bounded(path, _MOST_BYTES)), strict=True)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            problem, remedy = f"there is no {FILE} here.", f"name a folder that a job's --report named, or {_AGAIN}"
            raise NoVerdict(problem, where=str(folder), remedy=remedy) from None
        why = "it is not a part of a run" if isinstance(error, ValidationError | json.JSONDecodeError) else error
        raise NoVerdict(f"the part cannot be read: {why}.", where=str(path), remedy=_AGAIN) from None
    if os.environ.get(models.KEY_VARIABLE) and not is_sealed(models.cache_key(root), part.content, part.seal):
        raise NoVerdict(
            f"the part was changed, or another {models.KEY_VARIABLE} sealed it.", where=str(path), remedy=_AGAIN
        )
    return ReadPart(folder, part)


def _inside(folder: Path, root: Path) -> bool:
    """Whether a folder is in the repository, where a branch can commit a part of its own."""
    return any(map(folder.resolve().is_relative_to, repositories_of(root)))


def _take(read: ReadPart, into: models.EmbeddingCache, root: Path) -> None:
    """Copy a part's entries. Raises NoVerdict for one that is missing, damaged, or was changed."""
    folder, entries = read.folder / ENTRIES, read.part.entries
    for name, sha256 in entries.items():
        path = folder / f"{name}.safetensors"
        try:
            same = path.is_file() and not path.is_symlink() and sha256_file(path) == sha256
        except OSError:
            same = False
        if not same:
            raise NoVerdict(f"{read.words} was changed, or is not complete.", where=str(path), remedy=_AGAIN)
    if refused := models.take(models.EmbeddingCache(folder, root, sealed=False), list(entries), into):
        where = str(folder / f"{refused}.safetensors")
        raise NoVerdict(f"{read.words} has an entry that is damaged.", where=where, remedy=_AGAIN)
