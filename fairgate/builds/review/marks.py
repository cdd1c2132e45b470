"""A rater's marks: what a record holds, the file that is saved, whole, after every answer; and the questions and
instructions, which are the papers' error categories in words that claim nothing about a person."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from fairgate.data import Hash, Manifest, Text
from fairgate.ground.atomic import remove
from fairgate.ground.errors import DatasetError, disk_errors
from fairgate.ground.hashing import digest, read_bounded, require_regular, sha256_bytes
from fairgate.ground.validation_words import fault_words

SCHEMA_VERSION: Final = 1
MAX_BYTES: Final = 256 << 20
RATER = r"^[a-z0-9][a-z0-9_-]{0,39}$"
Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
Key = tuple[str, str]
"""(set_id, member) of an image."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    at: Moment


class Opened(_Line):
    """The rater opened the page: of which content, with which sample and which instructions (by digest)."""

    kind: Literal["opened"] = "opened"
    schema_version: Literal[1] = SCHEMA_VERSION
    dataset: Text
    fingerprint: Hash
    rater: Annotated[str, StringConstraints(pattern=RATER)]
    images: Annotated[int, Field(ge=1)]
    sets: Annotated[int, Field(ge=0)]
    instructions: Hash
    fairgate: str


class Perceived(_Line):
    """The group perceived per attribute, None where none could be. `blind`: before the prompt was shown."""

    kind: Literal["perceived"] = "perceived"
    set_id: Text
    member: Text
    perceived: dict[Text, Text | None]
    blind: bool


class Quality(_Line):
    """What is wrong with an image, if anything."""

    kind: Literal["quality"] = "quality"
    set_id: Text
    member: Text
    quality: Literal["good", "out_of_frame", "not_realistic", "off_prompt", "unsure"]


class SceneMark(_Line):
    """Whether the members of a set show one scene."""

    kind: Literal["scene"] = "scene"
    set_id: Text
    scene: Literal["same", "different", "unsure"]


class Withdrawn(_Line):
    """An earlier mark of this kind does not count."""

    kind: Literal["withdrawn"] = "withdrawn"
    what: Literal["perceived", "quality", "scene"]
    set_id: Text
    member: Text | None


Mark = Perceived | Quality | SceneMark
Line = Opened | Perceived | Quality | SceneMark | Withdrawn
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


@dataclass(slots=True)
class Record:
    """What one rater said of one content, the last word on each question. `sha256` names the file's bytes."""

    rater: str
    opened: list[Opened] = field(default_factory=list)
    perceived: dict[Key, Perceived] = field(default_factory=dict)
    blind: dict[Key, Perceived] = field(default_factory=dict)
    """The last answers before the prompt was shown. They stay when one is changed or withdrawn: the prompt was seen."""
    qualities: dict[Key, Quality] = field(default_factory=dict)
    scenes: dict[str, SceneMark] = field(default_factory=dict)
    seen: set[Key] = field(default_factory=set)
    """Images whose prompt the rater was shown: what is perceived from then on is not blind."""
    last: str = ""
    sha256: str = ""

    @property
    def images(self) -> list[Key]:
        """Images with both answers."""
        return [key for key in self.perceived if key in self.qualities]

    @property
    def marked(self) -> bool:
        """Whether anything was answered, and not withdrawn."""
        return bool(self.perceived or self.qualities or self.scenes)

    def counted(self, key: Key) -> Perceived:
        """What counts of an image that was perceived: the blind answer, where there is one."""
        return self.blind.get(key, self.perceived[key])

    def add(self, line: Line) -> None:
        """Apply the next line."""
        self.last = max(self.last, line.at)
        if isinstance(line, Opened):
            self.opened.append(line)
        elif isinstance(line, Perceived):
            self.perceived[line.set_id, line.member] = line
            self.seen.add((line.set_id, line.member))
            if line.blind:
                self.blind[line.set_id, line.member] = line
        elif isinstance(line, Quality):
            self.qualities[line.set_id, line.member] = line
        elif isinstance(line, SceneMark):
            self.scenes[line.set_id] = line
        else:
            key = (line.set_id, line.member or "")
            {"perceived": self.perceived, "quality": self.qualities}.get(line.what, {}).pop(key, None)  # type: ignore[attr-defined]
            if line.what == "scene":
                self.scenes.pop(line.set_id, None)


def read_record(path: Path, manifest: Manifest) -> Record:
    """One rater's file, held against the dataset that it must be of.

    A last line that a killed process left without its end does not count. Raises DatasetError for anything else that is
    not a record of exactly this content.
    """
    require_regular(path, DatasetError)
    with disk_errors(DatasetError, "the review cannot be read", path, _RESTORE):
        content = read_bounded(path, MAX_BYTES)
    record = Record(path.stem, sha256=sha256_bytes(content))
    for number, text in enumerate(whole_lines(content), start=1):
        try:
            line = _LINE.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise DatasetError(
                f"the review's line is not valid: {fault_words(first)}.",
                where=f"{path}:{number}: {place}",
                remedy=_RESTORE,
            ) from error
        _require_of(line, manifest, record, f"{path}:{number}")
        record.add(line)
    return record


_RESTORE = "restore it with git; records are written by `fairgate review` and not by hand"


def whole_lines(content: bytes) -> list[bytes]:
    """The lines of a record that were written to their end."""
    return content[: content.rfind(b"\n") + 1].splitlines()


def _require_of(line: Line, manifest: Manifest, record: Record, where: str) -> None:
    """Raise DatasetError for a line that is not this rater's, of this content, and in its words."""
    if isinstance(line, Opened):
        if line.fingerprint != manifest.fingerprint:
            raise DatasetError(
                f"the review is of other content ({line.fingerprint[:12]}) than '{manifest.ref}' "
                f"({manifest.fingerprint[:12]}).",
                where=where,
                remedy="review this content: `fairgate review BUILD`",
            )
        if line.rater != record.rater:
            raise DatasetError(f"the review is rater '{line.rater}''s.", where=where, remedy=_RESTORE)
    elif not record.opened:
        raise DatasetError("the review does not say what it is of.", where=where, remedy=_RESTORE)
    if isinstance(line, Perceived) and not is_perception(line.perceived, manifest):
        raise DatasetError("the line names attributes or groups of another dataset.", where=where, remedy=_RESTORE)


def is_perception(answer: object, manifest: Manifest) -> bool:
    """Whether an answer has one of the dataset's groups, or None, for every attribute."""
    groups = manifest.attributes
    return (
        isinstance(answer, dict)
        and answer.keys() == groups.keys()
        and all(group is None or group in groups[name] for name, group in answer.items())
    )


def read_records(folder: Path, manifest: Manifest) -> list[Record]:
    """The record of every rater in a folder who marked something, by name; none where the folder is not there."""
    records = (read_record(path, manifest) for path in sorted(folder.glob("*.jsonl")))
    return [record for record in records if record.marked]


def holds_marks(path: Path) -> bool:
    """Whether a record holds a mark: a line other than those that say that the page was opened."""
    return path.is_file() and any(b'"kind":"opened"' not in line for line in whole_lines(path.read_bytes()))


class Keeper:
    """Appends to `folder/RATER.jsonl`. `record` holds what the file says. A context manager: one process at a time.

    That the page was opened is written with the first mark: who marks nothing leaves no file.
    """

    def __init__(self, folder: Path, opened: Opened, manifest: Manifest) -> None:
        """Raises DatasetError where the file is another process's, is of other content, or cannot be written."""
        self.path = folder / f"{opened.rater}.jsonl"
        with self._writable():
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(folder / f".{opened.rater}.lock")
            self._lock.acquire(timeout=0)
        try:
            with self._writable():  # what follows the last whole line was being written at a kill
                self._end = self.path.read_bytes().rfind(b"\n") + 1 if self.path.exists() else 0
            self.record = read_record(self.path, manifest) if self._end else Record(opened.rater)
            self._unsaid = [opened]
        except BaseException:
            self.close()
            raise

    def add(self, line: Mark | Withdrawn) -> None:
        """Put a line on the disk, whole or not at all. Raises DatasetError where it cannot be written."""
        lines = [*self._unsaid, line]
        text = b"".join(entry.model_dump_json().encode() + b"\n" for entry in lines)
        with self._writable(), self.path.open("r+b" if self.path.exists() else "xb") as handle:
            handle.seek(self._end)
            handle.truncate()
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        self._end += len(text)
        self._unsaid = []
        for entry in lines:
            self.record.add(entry)

    def close(self) -> None:
        """Let another process write."""
        remove(Path(self._lock.lock_file))
        self._lock.release()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except Timeout as error:
            raise DatasetError(
                f"rater '{self.path.stem}' has this review open already.",
                where=str(self.path),
                remedy="go on in that page, or stop that `fairgate review` first; another person takes another --rater",
            ) from error
        except OSError as error:
            raise DatasetError(
                f"the mark cannot be saved ({error.strerror or error}).",
                where=str(self.path),
                remedy="make room and the folder writable, then mark again: what was marked before is saved",
            ) from error


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its key in the records, its label on the page, and a line that says when to give it."""

    key: str
    label: str
    hint: str


QUALITIES: Final = (
    Answer("good", "Good", "It shows what was asked, and the person can be seen."),
    Answer("out_of_frame", "Subject out of frame or focus", "Cut off, turned away, too small or too blurred."),
    Answer("not_realistic", "Not realistic", "Distorted face or limbs, melted objects, no such scene."),
    Answer("off_prompt", "Not what was asked", "Another subject, nobody, or several people where one was asked."),
    Answer("unsure", "Unsure", "You cannot say which of these it is."),
)
"""Table 1 of Howard et al. (social_counterfactuals) and the review of Lui et al. (occupations: obvious quality issues).
Failures of an attribute ("cannot discern", "failure to generate") follow from what was perceived before."""

SCENES: Final = (
    Answer("same", "Same scene", "Same place, pose and clothes; only the person's perceived groups differ."),
    Answer("different", "Different scenes", "At least one image differs in more than the person's perceived groups."),
    Answer("unsure", "Unsure", "You cannot say."),
)

INSTRUCTIONS: Final = (
    "You see one image at a time. First say which group you perceive, for every attribute, without knowing what was "
    "asked for. Answer at first sight; where you perceive none, say so.",
    "You then see what was asked (of a photograph: what is recorded), and say what is wrong with the image, if "
    "anything. A perceived group that differs is no error of this kind: it is counted from your first answers.",
    "Now and then you see all images of one set: say whether they show the same scene.",
    "Your answers say what you perceive. They are no facts about a person. Drawn pictures are judged as drawings.",
)


def instructions_digest() -> str:
    """Names the wording that a rater was shown, questions and answers included."""
    answers = [[answer.key, answer.label, answer.hint] for answer in (*QUALITIES, *SCENES)]
    return digest([list(INSTRUCTIONS), answers])
