"""Every error a user can meet: what is wrong, where, and what to do about it."""

from __future__ import annotations

import contextlib
import copyreg
import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

LONGEST = 2000
"""Characters of a part of an error that are shown: it may quote a file that somebody made long."""
_CONTROLS = r"\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"  # all but \n
_BREAKS = re.compile(r"[\t\n\r\x0b\x0c\x85\u2028\u2029]+ *")
_HALVES = re.compile(r"[\ud800-\udfff]")
_UNSEEN = re.compile(f"[{_CONTROLS}]")
_COMMAND = re.compile(r"^\s*:(?=:)|#(?=#\[)")  # GitHub trims the lines in which it looks for commands
_HARMFUL = re.compile(rf"[{_CONTROLS}]|^[^\S\n]*::|##\[", re.MULTILINE)


class FairgateError(Exception):
    """Base of all errors that fairgate raises on purpose.

    `problem` is a sentence; `where` a file, line, check or image; `remedy` what the reader can do now. Each is one line
    that a terminal and a log show unchanged, whatever file it quotes (`harmless`).
    """

    def __init__(self, problem: str, *, where: str | None = None, remedy: str | None = None) -> None:
        problem = harmless(problem)
        where, remedy = (None if part is None else harmless(part) for part in (where, remedy))
        super().__init__(problem, where, remedy)
        self.problem = problem
        self.where = where
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles of any subclass, whatever its own constructor takes: another process may have raised it."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined] # what pickle itself calls

    def __str__(self) -> str:
        lines = [self.problem]
        if self.where:
            lines.append(f"  where:  {self.where}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)


class MetricError(FairgateError):
    """The numbers given to a metric cannot carry an answer (NaN, too few images, an absent group)."""


class StatisticsError(FairgateError):
    """The samples cannot support a test or an interval."""


class DatasetError(FairgateError):
    """A dataset is missing, incomplete, or is not what its manifest says."""


class ModelError(FairgateError):
    """A checkpoint cannot be found, trusted or loaded."""


class CapabilityError(ModelError):
    """A model cannot do what a probe needs of it, or cannot tell its labels apart."""


class ScoresError(FairgateError):
    """A table of precomputed scores does not answer the suite's prompts for the dataset's images."""


class DeviceError(FairgateError):
    """The requested device is not there."""


class SuiteError(FairgateError):
    """A suite is unknown, malformed, or needs something that cannot be measured."""


class RecipeError(FairgateError):
    """A recipe is unknown, its settings are not ones it understands, or a build cannot go on."""


class SettingsError(FairgateError):
    """An option, ini value or environment variable is not one that fairgate understands."""


class BaselineError(FairgateError):
    """The baseline cannot be read, or cannot be compared with this run."""


class NoVerdict(BaselineError):
    """The gate that a branch must pass is not one that this branch can evaluate: ends a run with exit code 3."""

    exit_code = 3


class TrackingError(FairgateError):
    """MLflow did not take a run. Never changes a verdict."""


@contextlib.contextmanager
def disk_errors(failure: type[FairgateError], problem: str, where: object, remedy: str) -> Iterator[None]:
    """Turns an OSError of the block (a file that cannot be read, a full disk) into `failure`, with its reason."""
    try:
        yield
    except OSError as error:
        raise failure(f"{problem}: {error.strerror or error}.", where=str(where), remedy=remedy) from error


def readable(text: str) -> str:
    """Text that every file can hold: a byte of a name that is not UTF-8 is written as a reader knows it.

    >>> readable("caf\\udce9") == r"caf\\xe9"
    True
    """
    return text if text.isascii() else _HALVES.sub(lambda half: _written(ord(half[0])), text)


def _written(code: int) -> str:
    byte = code - 0xDC00  # as Python decodes the bytes of a name
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else f"\\u{code:04x}"


def harmless(text: str, limit: int | None = LONGEST) -> str:
    """Foreign text on one line of at most `limit` characters, without what a terminal or a CI log would act on.

    Control characters (escape sequences) and those that change the direction of writing become �, bytes that are not
    UTF-8 are written out (`readable`), and nothing reads as a workflow command of GitHub (`::error::`, `##[group]`).
    Where something is cut, the last character is an ellipsis.

    >>> harmless("two\\n::error::lines")
    'two ::error::lines'
    """
    joined = _UNSEEN.sub("�", _BREAKS.sub(" ", readable(text)))
    joined = _COMMAND.sub(r"\g<0> ", joined)
    return joined if limit is None or len(joined) <= limit else f"{joined[: limit - 1]}…"


def clean(text: str, limit: int | None = None) -> str:
    """Foreign text for a report: `harmless`, with white space joined and, without a limit, in full."""
    return harmless(" ".join(text.split()), limit)


def first_harmful(texts: Collection[str]) -> str | None:
    """The first of many names that a terminal or a log would act on (`harmless` would change it), or None."""
    joined = "\n".join(texts)
    if joined.count("\n") == max(len(texts) - 1, 0) and not _HARMFUL.search(joined):
        return None
    return next((text for text in texts if harmless(text) != text), None)


def nearest(wrong: str, known: Iterable[str]) -> str | None:
    """The known name nearest to a mistyped one, or None when nothing is near."""
    near = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.5)
    return near[0] if near else None


def did_you_mean(wrong: str, known: Iterable[str]) -> str | None:
    """The known name nearest to a mistyped one as a question, or None when nothing is near.

    >>> did_you_mean("gendre", ["race", "gender"])
    "did you mean 'gender'?"
    """
    near = nearest(wrong, known)
    return None if near is None else f"did you mean '{near}'?"


def suggestion(wrong: str, known: Iterable[str], otherwise: str) -> str:
    """A remedy for a name that is not known: the nearest one as a question, then `otherwise`.

    >>> suggestion("gendre", ["race", "gender"], "recorded attributes: race, gender")
    "did you mean 'gender'? recorded attributes: race, gender"
    """
    return " ".join(filter(None, [did_you_mean(wrong, known), otherwise]))


def listed(names: Sequence[str], most: int = 5, separator: str = ", ", more: str = "more") -> str:
    """The first of many names, and how many `more` there are.

    >>> listed(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    rest = f" and {len(names) - most:,} {more}" if len(names) > most else ""
    return separator.join(names[:most]) + rest
