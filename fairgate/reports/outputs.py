"""Outputs: files that are rendered from a run's record. Each registers itself when its module is imported; installed
packages add theirs (`fairgate.outputs`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from fairgate.ground.errors import FairgateError
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


OUTPUTS: Final[Registry[Output]] = Registry("output", _checked, lambda output: output.name).with_modules(
    {
        "results": "fairgate.reports.results",  # first: a run that is killed later has its record
        "scores": "fairgate.reports.results",
        "metrics": "fairgate.reports.results",
        "sarif": "fairgate.reports.ci",
        "code_quality": "fairgate.reports.ci",
        "comment": "fairgate.reports.run_comment",
        "page": "fairgate.reports.run_page",  # last: it waits for the history in MLflow
        "card": "fairgate.reports.model_card",
        "annex": "fairgate.reports.annex",
        "badge": "fairgate.reports.badge",
        "badge_endpoint": "fairgate.reports.badge",
    }
)
"""Outputs by name, in the order in which they are written."""
register = OUTPUTS.add
Warn = Callable[[str], None]


def output_files(*occasions: Occasion) -> list[str]:
    """The names of the files that are written on any of these occasions."""
    everything = [*OUTPUTS.own(), *_others(lambda _: None)]
    return [output.file for output in everything if set(occasions) & set(output.when)]


def rendered(
    record: RunRecord, context: OutputContext, *occasions: Occasion, warn: Warn
) -> Iterator[tuple[str, bytes]]:
    """File name and content of each output of these occasions; those of installed packages come last.

    A package's output that cannot be loaded, is refused or raises costs a warning: it changes neither the verdict nor
    another file. It gets a copy of the record.
    """
    for output in OUTPUTS.own():
        if set(occasions) & set(output.when) and (content := output.render(record, context)) is not None:
            yield output.file, content
    for output in _others(warn):
        made = None
        if set(occasions) & set(output.when):
            with _tolerated(output.name, warn):
                made = output.render(record.model_copy(deep=True), context)
                if made is not None and not isinstance(made, bytes):
                    raise TypeError(f"render returned {type(made).__name__}, not bytes")
        if isinstance(made, bytes):
            yield output.file, made


def _others(warn: Warn) -> list[Output]:
    """The outputs of installed packages, but those that write a file of another output."""
    own = OUTPUTS.own()
    names: set[str] = set()
    with _tolerated("of an installed package", warn):
        names = set(OUTPUTS)
    outputs: list[Output] = []
    for name in sorted(names - {output.name for output in own}):
        with _tolerated(name, warn):
            output = OUTPUTS[name]
            if output.file in {other.file for other in (*own, *outputs)}:
                raise ValueError(f"another output writes {output.file}")
            outputs.append(output)
    return outputs


@contextmanager
def _tolerated(name: str, warn: Warn) -> Iterator[None]:
    """Whatever a package's code raises becomes a warning, be it `sys.exit`."""
    try:
        with OUTPUTS.blaming(name):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and pytest's outcomes are no Exception
        reason = str(error) if isinstance(error, FairgateError) else f"{type(error).__name__}: {error}."
        warn(f"warning: the output '{name}' is left out, the verdict stands: {reason}")
