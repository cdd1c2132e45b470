"""The description of a dataset: the strict, versioned `manifest.json` next to its shards."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    field_validator,
)

from fairgate.ground.errors import DatasetError, first_harmful, harmless
from fairgate.ground.hashing import read_bounded, require_regular
from fairgate.ground.validation_words import fault_words

MANIFEST_FILE = "manifest.json"
CARD_FILE = "README.md"
SCHEMA_VERSION: Final = 1
MAX_BYTES: Final = 64 << 20
MAX_ROWS: Final = 100_000_000
"""Images of a dataset: its text columns are held in memory, and more would not fit."""
CROSS = " × "
"""Joins attributes ("race × gender") and groups ("dark × female") in names of intersections."""

NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]*$"
VERSION_PATTERN = r"^v[1-9][0-9]*$"
PULL: Final = "run `fairgate dataset pull --force` on its pointer (fairness_data.dvc or datasets.dvc)"
"""What to do about a release that is damaged here."""


def _plain(text: str) -> str:
    if first_harmful([text]) is not None:
        raise ValueError(HARMFUL.format(harmless(text)))
    return text


HARMFUL: Final = "'{}' holds control characters, or reads as a command to a CI log"
Line = Annotated[str, StringConstraints(min_length=1)]
Text = Annotated[Line, AfterValidator(_plain)]
"""A name that is shown everywhere: test ids, tables, logs."""
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Shard(_Strict):
    """One Parquet file: its name, the SHA-256 and size of its bytes, and how many sets and rows it holds."""

    file: Annotated[str, StringConstraints(pattern=r"^shard-[0-9]{5,}-of-[0-9]{5,}\.parquet$")]
    sha256: Hash
    bytes: Count
    sets: Count
    rows: Count


class Counts(_Strict):
    """Images per subject, per group, per group of each subject, and per intersection.

    `groups` lists every declared group, at 0 where it has no image. `intersections` holds each pair of attributes
    and the full crossing; a combination that is not listed has no image.
    """

    subjects: dict[str, Count]
    groups: dict[str, dict[str, Count]]
    subject_groups: dict[str, dict[str, dict[str, Count]]]
    intersections: dict[str, dict[str, Count]]


class Manifest(_Strict):
    """The one description of a dataset version. `fingerprint` names its content, whatever wrote the files.

    `attributes` maps each attribute to its groups in their declared order. `members` lists the members that every
    set of a counterfactual dataset has, in stored order, and is None where sets may differ. `notice` is shown
    wherever the data are shown.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
    version: Annotated[str, StringConstraints(pattern=VERSION_PATTERN)]
    fingerprint: Hash
    about: str
    notice: str | None
    licence: Line
    counterfactual: bool
    attributes: dict[Text, list[Text]]
    subjects: list[Text]
    members: list[Text] | None
    n_sets: Count
    n_rows: Count
    counts: Counts
    image_encoding: Text
    recipe: dict[str, JsonValue]
    lineage: dict[str, str]
    fairgate: str
    shards: Annotated[list[Shard], Field(min_length=1)]

    @field_validator("n_rows")
    @classmethod
    def _within_reason(cls, value: int) -> int:
        if value > MAX_ROWS:
            raise ValueError(f"a dataset has at most {MAX_ROWS:,} images")
        return value

    @property
    def ref(self) -> str:
        """How a suite names this version: `occupations@v1`."""
        return f"{self.name}@{self.version}"

    @property
    def members_per_set(self) -> int | None:
        """Members of every set, or None where sets may differ."""
        return len(self.members) if self.members is not None else None

    def to_json(self) -> str:
        """The manifest file's text."""
        return self.model_dump_json(indent=2) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a dataset folder. Raises DatasetError when it is absent, unparsable or of another schema."""
    path = folder / MANIFEST_FILE
    require_regular(path, DatasetError)
    try:
        content = read_bounded(path, MAX_BYTES)
        plain = json.loads(content)
    except FileNotFoundError:
        raise DatasetError(
            f"there is no dataset in '{folder}'.",
            where=str(path),
            remedy="run `fairgate dataset pull`, or `fairgate dataset import`",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        cause = getattr(error, "strerror", None) or error
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else cause
        raise DatasetError(
            f"the dataset's manifest cannot be read: {reason}.",
            where=str(path),
            remedy=PULL,
        ) from error
    version = plain.get("schema_version") if isinstance(plain, dict) else None
    if version != SCHEMA_VERSION:
        raise _other_schema(version, path)
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DatasetError(
            f"the dataset's manifest is not valid: {fault_words(first)}.",
            where=f"{path}: {place}",
            remedy=f"{PULL}; manifests are written by fairgate and not by hand",
        ) from error


def _other_schema(version: object, path: Path) -> DatasetError:
    if isinstance(version, int) and version > SCHEMA_VERSION:
        remedy = "update fairgate: this release was written by a newer one"
    elif isinstance(version, int):
        remedy = "release the dataset again with this fairgate, or use the fairgate that wrote it"
    else:
        remedy = f"{PULL}; the file is not a manifest of fairgate"
    return DatasetError(
        f"the manifest has schema_version {version!r:.40}, and this fairgate reads {SCHEMA_VERSION}.",
        where=str(path),
        remedy=remedy,
    )


def check_name(name: str, version: str | None = None) -> None:
    """Refuse names that could be paths or that a reader could confuse. Raises DatasetError."""
    if not re.match(NAME_PATTERN, name) or name.endswith("\n"):
        raise DatasetError(
            f"'{name}' is not a dataset name.",
            remedy="use small letters, digits, '-' and '_', beginning with a letter or digit; a path is not accepted",
        )
    if version is not None and (not re.match(VERSION_PATTERN, version) or version.endswith("\n")):
        raise DatasetError(f"'{version}' is not a dataset version.", remedy="versions are v1, v2, v3, ...")
