"""Tables with several rows an image. No torch.

`answers:FILE`: answers in words that somebody's model gave before.

A CSV, Parquet or JSON Lines table with a row per image and question: the image, as in a table of scores, the `answer`,
and the `prompt` that was answered, to the letter, which a table of one question can leave out. `?answer=COLUMN`,
`prompt=` and `id=` say what the file calls them; `prompt=none` that it asks in words of its own, one question an image.
`target` is the answer that the file calls right: a first suite takes it over, and no run reads it, for a run's own
table would then say what is right about it.
Samples of lmms-eval and HELM are read as they are (`json_table`).

`detections:FILE`: boxes that someone computed before. A CSV or Parquet table with a row per box: the image, `label`,
`score`, and `left`, `top`, `right`, `bottom` in pixels. An image without a box has one row with an empty score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fairgate.data import TextColumn, is_text, texts
from fairgate.ground.errors import ScoresError, did_you_mean, listed
from fairgate.ground.number_format import share_words
from fairgate.models.contract import LOWEST_SCORE, MOST_BOXES, Capability, Detections, Floats, Request, Rows
from fairgate.models.json_table import ID
from fairgate.models.score_table import ScoreTable, named_images, names_in, places_of_images
from fairgate.models.table_files import ROWS_PER_IMAGE, Precomputed, opened_table, quoted, table_digest, table_file

_MOST_PROMPTS = 100
_LONGEST = 20_000
_TEXTS = ("prompt", "answer", "target")
_NO_PROMPT = "none"
CORNERS = ("left", "top", "right", "bottom")


@dataclass(frozen=True)
class PrecomputedAnswers(Precomputed, scheme="answers"):
    """Answers that someone's model gave before: by the image's row, and by the prompt, "" in a table without one."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"answer"})
    preparation: ClassVar[str] = "answers/1"

    path: Path
    keys: TextColumn
    prompted: bool
    answers: Mapping[tuple[int, str], str] = field(repr=False)
    repeats: Floats = field(repr=False, compare=False)
    """Rows of every image that are another one's again, (images,)."""
    targets: Mapping[tuple[int, str], str] = field(repr=False, compare=False)
    """What the table calls right, as `answers`; empty if it has no such column."""
    _asked: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, request: Request) -> Self:
        """Open a table. Raises ScoresError: unreadable, no answers, images foreign, a question with two answers."""
        path, columns = table_file(request, (ID, *_TEXTS))
        index = request.source.index
        of_its_own = columns.get("prompt") == _NO_PROMPT
        named = {name: given for name, given in columns.items() if (name, given) != ("prompt", _NO_PROMPT)}
        with opened_table(path, len(index.set_id), _MOST_PROMPTS, _TEXTS, named) as arrow:
            keys, found, keyed_by = named_images(arrow, index)
            if "answer" not in arrow.column_names:
                remedy = "add the column `answer`, a text (in JSON also a list of one), or append `?answer=COLUMN`; "
                remedy += f"found: {quoted(arrow.column_names)}"
                raise ScoresError("no column holds the answers.", remedy=remedy)
            places = places_of_images(keys, found, keyed_by, whole=False)
            prompted = "prompt" in arrow.column_names and not of_its_own
            prompts = _words(arrow, "prompt") if prompted else [""] * len(found)
            rows = list(zip(places.tolist(), prompts, strict=True))
            given = list(zip(rows, _words(arrow, "answer"), strict=True))
            distinct = list(dict.fromkeys(given))
            if twice := [row for row, count in Counter(row for row, _ in distinct).items() if count > 1]:
                raise ScoresError(
                    f"{share_words(len(twice), 'question')} with two answers: {quoted(keys[row] for row, _ in twice)}.",
                    remedy="keep one row an image and prompt",
                )
            repeats = np.zeros(len(keys))
            for ((row, _), _), count in Counter(given).items():
                repeats[row] += count - 1
            fingerprint, targets = table_digest(path, columns, kind="answers"), _targets(arrow, rows)
            return cls(request.uri, fingerprint, path, keys, prompted, dict(distinct), repeats, targets)

    def answer(self, prompts: Sequence[str], longest: int) -> NDArray[np.object_]:  # noqa: ARG002 - as the model wrote
        """The table's answer to every image's prompt. Raises ScoresError where there is none."""
        for row, prompt in enumerate(() if self.prompted else prompts):
            if prompt and self._asked.setdefault(row, prompt) != prompt:
                raise ScoresError(
                    "several questions are asked, and the table does not say which of them it answers.",
                    where=str(self.path),
                    remedy="add the column `prompt`, with the question to the letter",
                )
        wanted = [(row, prompt if self.prompted else "") for row, prompt in enumerate(prompts)]
        lost = [key for key, prompt in zip(wanted, prompts, strict=True) if prompt and key not in self.answers]
        if lost:
            question, known = lost[0][1], {prompt for _, prompt in self.answers}
            about = f" to '{question[:80]}'" if self.prompted else ""
            named = quoted(self.keys[at] for at, _ in lost)
            other = None if question in known else did_you_mean(question, known)
            raise ScoresError(
                f"the table lacks the answers{about} of {share_words(len(lost), 'image')}: {named}.",
                where=str(self.path),
                remedy=(f"{other} the table's column `prompt` has the question to the letter; or " if other else "")
                + "answer for every image that is asked; the probe's `unasked` names groups that are not, such as "
                "pictures that the dataset lacks",
            )
        given = [self.answers[key] if prompt else "" for key, prompt in zip(wanted, prompts, strict=True)]
        return np.array(given, dtype=object)


def _targets(arrow: Any, rows: Sequence[tuple[int, str]]) -> dict[tuple[int, str], str]:
    """By image and prompt, of rows that have a target and are not again in the table with another one."""
    column = arrow.column("target") if "target" in arrow.column_names else None
    if column is None or not is_text(column.type):
        return {}
    there = column.is_valid().to_pylist()
    named = {(row, str(text)) for row, text, valid in zip(rows, texts(column), there, strict=True) if valid}
    once = Counter(row for row, _ in named)
    return {row: text for row, text in named if once[row] == 1}


def _words(arrow: Any, name: str) -> list[str]:
    """A column of text. Raises ScoresError for other kinds, for cells that hold none (null) and for giants."""
    column = arrow.column(name)
    if not is_text(column.type):
        raise ScoresError(f"column '{name}' does not hold text.", remedy="write what was asked and answered as text")
    if column.null_count:
        raise ScoresError(
            f"column '{name}' holds null in {column.null_count:,} of {len(column):,} rows, first in row "
            f"{1 + column.is_valid().to_pylist().index(False):,}.",
            remedy='write "" where the model answered nothing, and answer again where it was not asked',
        )
    found = [str(text) for text in texts(column)]
    if any(len(text) > _LONGEST for text in set(found)):
        raise ScoresError(
            f"column '{name}' holds a text of more than {_LONGEST:,} characters.", remedy="cut long answers off"
        )
    return found


@dataclass(frozen=True)
class PrecomputedBoxes(Precomputed, scheme="detections"):
    """Boxes that someone computed before: of each its label, its image's row, score and corners."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"detect"})
    preparation: ClassVar[str] = "detections/1"

    path: Path
    label: TextColumn = field(repr=False)
    row: Rows = field(repr=False)
    score: Floats = field(repr=False)
    corners: Floats = field(repr=False)

    @classmethod
    def read(cls, request: Request) -> Self:
        """Open a table. Raises ScoresError: unreadable, images missing or foreign, boxes that are none."""
        path, _ = table_file(request)
        index = request.source.index
        with opened_table(path, len(index.set_id), MOST_BOXES * ROWS_PER_IMAGE) as arrow:
            if absent := [name for name in ("label", "score") if name not in arrow.column_names]:
                raise ScoresError(
                    f"no column is called '{absent[0]}'.", remedy="write a row a box, with its label, score"
                )
            keys, found, keyed_by = named_images(arrow, index)
            rows = places_of_images(keys, found, keyed_by)
            columns = tuple(name for name in arrow.column_names if name not in (*keyed_by, "label"))
            given = {name: np.array(arrow.column(name).is_valid().to_pylist(), dtype=bool) for name in columns}
            boxes = np.flatnonzero(given["score"])
            if (odd := np.flatnonzero(~given["score"] & np.any(list(given.values()), axis=0))).size:
                raise ScoresError(
                    f"{odd.size} boxes have no score, such as those of {quoted(found[odd])}.",
                    remedy="leave the whole row empty where nothing was found, but for the image",
                )
            label = names_in(arrow.column("label"), "label").take(boxes)
            table = ScoreTable(path, columns, found.take(boxes), boxes, arrow)
        score = table.column("score", (0, 1))
        corners = np.stack([table.column(name, None) for name in CORNERS], axis=1).reshape(-1, 4)
        wrong = np.flatnonzero((corners[:, 2] <= corners[:, 0]) | (corners[:, 3] <= corners[:, 1]))
        if wrong.size:
            raise ScoresError(
                f"{wrong.size} boxes have no area, such as those of {table.names(wrong)}.",
                where=str(path),
                remedy="write `right` above `left` and `bottom` above `top`, in pixels from the upper left corner",
            )
        return cls(request.uri, table_digest(path, {}, boxes=1), path, label, rows[boxes], score, corners)

    def detect(self, what: str) -> Detections:
        """The best boxes of a label. Raises ScoresError for one that no box has."""
        named = self.label == what
        if not named.any():
            labels = sorted(self.label.distinct())
            raise ScoresError(
                f"no box of the table has the label '{what}'.",
                where=str(self.path),
                remedy=did_you_mean(what, labels) or f"its labels: {listed(labels, 8)}",
            )
        chosen = np.flatnonzero(named & (self.score > LOWEST_SCORE))
        chosen = chosen[np.lexsort((-self.score[chosen], self.row[chosen]))]
        row = self.row[chosen]
        place = np.arange(len(row)) - np.searchsorted(row, row)  # among the boxes of its image
        chosen = chosen[place < MOST_BOXES]
        return Detections(self.row[chosen], self.score[chosen], self.corners[chosen])
