"""What an output is: a file that is rendered from a run's record. Each registers itself when its module is imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from fairgate.ground.plugins import Registry
from fairgate.records import RunRecord

if TYPE_CHECKING:
    from fairgate.records import PastValue

PictureSource = Callable[[Sequence[str]], Mapping[str, Sequence[tuple[str, bytes]]]]
"""Given set ids, the encoded pictures of each set as (member, bytes); sets without pictures are left out."""
Occasion = Literal["gate", "github", "gitlab", "render", "card", "push"]
"""`gate`: a run's report folder, and its MLflow or W&B run. `github`, `gitlab`: that folder, on a runner of theirs.
`render`: `fairgate report render`. `card`: `fairgate card`. `push`: another job's report is sent to MLflow."""

_FILE: Final = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)+")


@dataclass(frozen=True, slots=True)
class Painted:
    """The pictures of one model: the subject and the group as read of each (pictures,), and small JPEGs of some of
    them by row."""

    subjects: Sequence[str]
    read_as: Sequence[str]
    small: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class OutputContext:
    """What an output may use besides the record; a record that another job made comes without most of it.

    `suite_file` is the suite's path from the top of the repository, `lines` the line of each item that is in it.
    `scores` are the content of scores.parquet, `painted` the pictures of generators by probe and model (`baseline`,
    `candidate`). `past` are earlier runs' values, which MLflow may be slow to give.
    """

    suite_file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    pictures: PictureSource | None = None
    past: Callable[[], Sequence[PastValue]] = tuple
    scores: Callable[[], bytes] | None = None
    painted: Mapping[str, Mapping[str, Painted]] = field(default_factory=dict)
    report_url: str | None = None
    model_name: str | None = None


@dataclass(frozen=True)
class Output:
    """A file, and when it is written. `render` returns its content, or None if there is nothing to write."""

    name: str
    file: str
    when: tuple[Occasion, ...]
    render: Callable[[RunRecord, OutputContext], bytes | None]

    def __post_init__(self) -> None:
        object.__setattr__(self, "__module__", self.render.__module__)  # a registry asks who made it


def _checked(_: str, thing: Any) -> Output:
    if not isinstance(thing, Output):
        raise TypeError("it is no fairgate.reports.Output")
    if len(thing.file) > 80 or not _FILE.fullmatch(thing.file):
        raise TypeError(f"its file {thing.file!r:.80} is no plain name in small letters with a suffix")
    if not thing.when or not set(thing.when) <= set(get_args(Occasion)):
        raise TypeError(f"it is written on {thing.when!r:.80}, which are no occasions")
    return thing


REGISTERED: Registry[Output] = Registry("output", _checked, lambda output: output.name)
register = REGISTERED.add
