"""What probes return: numbers per image, in the dataset's order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fairgate.data import TextColumn, TextRows, give_back, on_disk
from fairgate.ground.hashing import digest, sha256_bytes
from fairgate.models import ImageIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

METRIC_VERSION = 2
"""Raised whenever a probe's numbers change their meaning: records of different versions are not compared. 2: labels of
equal probability are no right answer."""


LISTED_AGAIN = "listed_again"
"""Further number of an image: how many rows of the judged table are its row again; it counts once."""
PICTURE = "picture"
"""Further number of a generator's row: the first row of all with the very same picture."""
SHOWN = "shown"
"""Of a generator's row: whether the reader takes its picture for its own subject."""
REFUSAL = "abstained"
"""Of a generator's row, if any has it: whether it refused, which is no picture."""
ABSENT = "absent"
"""Of a generator's row, if any has it: whether a smaller sample has no picture of it."""
REPEAT = "repeat"
"""Of a generator's row: whether it lists a picture of its subject again, which counts once."""
_DIGESTED = 1 << 16
"""Numbers or texts that are written at once."""


class Rows(ImageIndex, Protocol):
    """The images of a dataset, in stored order; `fairgate.data.Dataset.index` is one."""

    @property
    def subject(self) -> TextRows: ...
    @property
    def attributes(self) -> Mapping[str, TextRows]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """The competing labels of one subject's images, and what the model answered; held in memory only.

    `rows` (images,) are places in the dataset, of several views of an image equal ones; `log_p` (images, labels) are
    log-probabilities at the model's own temperature and `true` (images,) the column of the label whose probability is
    measured.
    """

    subject: str
    rows: NDArray[np.integer[Any]]
    log_p: NDArray[np.float64]
    true: NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class ProbeScores:
    """One probe's answer for every image.

    `value` (images,) float64 is P(true label) for zero-shot classification, P(positive label) where the probe names
    one, the cosine to the subject's query for retrieval and to the word's prompt for an association.
    `predicted` (images,) is the most probable label of a classification and `correct` whether it is the true one
    (None where no label is). `rank` (images,), of a retrieval over several subjects, is the place of the image's own
    subject's query among all subjects' queries: 1 is nearest, and equal queries count as nearer. Files from before
    there were ranks have none. `truth` (images,) is the right label where a metric counts images by it. `contests` hold
    all labels' probabilities of a classification that was just scored; they are never written, and scores read from a
    file have none. `more` are further numbers of every image by name, (images,) float64 each, NaN where an image has
    none: of an edit, how much lighter its skin is. `painted` are small JPEGs of some pictures of a generator by row,
    and `right` (images,) the right answers to a question, None without one; neither is ever written.
    """

    value: NDArray[np.float64]
    predicted: TextRows | None = None
    correct: NDArray[np.bool_] | None = None
    rank: NDArray[np.int64] | None = None
    truth: TextRows | None = None
    contests: tuple[Contest, ...] = field(default=(), repr=False, compare=False)
    more: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    painted: Mapping[int, bytes] = field(default_factory=dict, repr=False, compare=False)
    right: NDArray[Any] | None = field(default=None, repr=False, compare=False)

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Which images `correct` is about, (images,): of questions, those that are asked and have a right answer."""
        right = self.more.get("right")
        return np.ones(len(self.value), dtype=bool) if right is None else ~np.isnan(right)

    def on_disk(self) -> ProbeScores:
        """The same, whose numbers are on disk if they are many."""
        contests = (
            Contest(each.subject, on_disk(each.rows), on_disk(each.log_p), on_disk(each.true)) for each in self.contests
        )
        return replace(self, value=on_disk(self.value), contests=tuple(contests))


def scores_digest(scores: Mapping[str, ProbeScores]) -> str:
    """Hex SHA-256 of what the probes answered, image by image: a record names the scores that belong to it."""
    return digest({name: _digests(probe_scores) for name, probe_scores in scores.items()})


def _digests(probe_scores: ProbeScores) -> list[str | None]:
    """A digest per column; of ranks, truths and further numbers only where there are any, so that records from before
    them stay valid."""
    columns = [
        _numbers_digest(probe_scores.value),
        None if probe_scores.predicted is None else _texts_digest(probe_scores.predicted),
        None if probe_scores.correct is None else sha256_bytes(probe_scores.correct.astype(np.uint8).tobytes()),
    ]
    if probe_scores.rank is not None:
        columns.append(sha256_bytes(probe_scores.rank.astype("<i8").tobytes()))
    if probe_scores.truth is not None:
        columns.append(_texts_digest(probe_scores.truth, "truth"))
    more = further_numbers(probe_scores.more)
    return [*columns, *(digest([name, _numbers_digest(more[name])]) for name in sorted(more))]


def further_numbers(more: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Further numbers, as a file holds them: without columns in which no image has a number."""
    return {name: numbers for name, numbers in more.items() if not np.isnan(numbers).all()}


def _numbers_digest(numbers: NDArray[np.float64]) -> str:
    """Every NaN is the same: a missing number comes back from a file as another one."""
    content = hashlib.sha256()
    for start in range(0, len(numbers), _DIGESTED):
        part = numbers[start : start + _DIGESTED]
        content.update(np.where(np.isnan(part), np.nan, part).astype("<f8").tobytes())
    give_back()
    return content.hexdigest()


def _texts_digest(texts: TextRows, *first: str) -> str:
    """The `digest` of a list of so many texts, without such a list."""
    names, codes = text_codes(texts)
    written = np.array([json.dumps(str(name), ensure_ascii=False) for name in names.tolist()] or [""], dtype=object)
    content = hashlib.sha256(("[" + ",".join(map(json.dumps, first))).encode())
    for start in range(0, len(codes), _DIGESTED):
        comma = "," if start or first else ""
        content.update((comma + ",".join(written[codes[start : start + _DIGESTED]])).encode())
    content.update(b"]")
    return content.hexdigest()


def text_codes(values: TextRows) -> tuple[TextRows, NDArray[np.int64]]:
    """The different texts of a column (rows,), sorted, and the place of each row's among them, (rows,).

    What `np.unique(values, return_inverse=True)` gives, at a tenth of its time: texts are hashed, and only the
    different ones compared. What is no text, such as a plugin's None for no answer, has the place of its `str`.
    """
    if isinstance(values, TextColumn):
        return values.sorted()
    texts = values.tolist()
    names = list(dict.fromkeys(texts))  # a set would lose an order that is nearly right
    keys = names if set(map(type, names)) <= {str} else list(map(str, names))
    order = sorted(range(len(names)), key=keys.__getitem__)
    codes = np.empty(len(names), dtype=np.int64)
    codes[order] = np.arange(len(names))
    if len(names) == 1:
        codes = np.zeros(len(texts), dtype=np.int64)
    elif len(names) < len(texts):
        place = dict(zip(names, codes.tolist(), strict=True))
        codes = np.fromiter(map(place.__getitem__, texts), dtype=np.int64, count=len(texts))
    return np.array(names, dtype=object)[order], codes
