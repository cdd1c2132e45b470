"""Words of interest in the captions of a training set, and the gendered pronouns next to them (Hamidieh et al. 2024,
table 3), with pictures of such captions (figure 8)."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from fairgate.builds.review import share
from fairgate.data import CaptionFile, caption_files, picture_rows, picture_within
from fairgate.ground.errors import SettingsError
from fairgate.ground.png import png_of
from fairgate.ground.randomness import stream
from fairgate.records import Estimate, StudyCell, StudyFigure, StudyPicture, StudyTable
from fairgate.studies.papers.contract import Study, StudyContents, StudyPlace, Typed, register, series_of

WORDS = ("maid", "nurse", "housekeeper", "assistant", "porter", "farmer", "ceo")
"""Those of table 3."""
TERMS: dict[str, tuple[str, ...]] = {
    "male": ("he", "him", "his", "himself"),
    "female": ("she", "her", "hers", "herself"),
}
"""Gendered pronouns; the paper does not list its own."""
PICTURES = 8
LONGEST_CAPTION = 1 << 16
"""Characters; what is longer is a page of text, and left out. A few bytes of Parquet may hold one in every row."""
_KEPT = 1 << 14
_WRITE = "write --terms male=he,him,his --terms female=she,her,hers"


@dataclass(slots=True)
class WordCount:
    """Captions with a word: all, those that name one group alone, and those that name several; and some of these, drawn
    evenly, for a sheet."""

    captions: int = 0
    alone: Counter[str] = field(default_factory=Counter)
    several: int = 0
    drawn: list[tuple[float, int, int, str | None]] = field(default_factory=list)
    """(-priority, file, row, path of its picture), the lowest priorities of all."""


def _terms(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Terms by group. Raises SettingsError for an option without an equals sign, and for a group given twice."""
    by_group: dict[str, tuple[str, ...]] = {}
    for option in given:
        group, equals, terms = option.partition("=")
        if not equals or group in by_group:
            raise SettingsError(f"'{option[:80]}' gives no new group its terms.", where="--terms", remedy=_WRITE)
        by_group[group] = tuple(term.strip() for term in terms.split(","))
    return by_group


@register
class CaptionWordsStudy(Study):
    """Count the captions with a word by the group that they name, and show some of their pictures.

    Table 3 and figure 8 of Hamidieh et al. 2024. Files are read as a stream; nothing is downloaded.
    """

    name: ClassVar[str] = "caption-words"
    title: ClassVar[str] = "Who is named next to a word in the captions of a training set?"
    paper: ClassVar[str] = (
        "Hamidieh et al. 2024, Identifying Implicit Social Biases in Vision-Language Models (So-B-IT)"
    )
    asks_models: ClassVar[bool] = False

    captions: Path = Field(description="Parquet, CSV or JSON Lines of captions, or a folder of such files.")
    column: str = Field("caption", description="Column of the captions.")
    word: tuple[str, ...] = Field(WORDS, description="A word; repeat (default: the paper's seven).")
    terms: Annotated[dict[str, tuple[str, ...]], Typed(_terms)] = Field(
        TERMS, description="GROUP=term,term of each group (default: pronouns of two genders)."
    )
    image: str | None = Field(
        None, description="Column of the pictures: bytes, or paths within --images. Draws the sheet."
    )
    images: Path | None = Field(None, description="Folder of the pictures (default: that of the file).")
    seed: int = Field(0, ge=0, description="Which pictures are drawn.")

    def run(self, _: StudyPlace) -> StudyContents:
        """Count words by group in captions, and draw a sheet of pictures if there are any.

        Raises DatasetError for files that cannot be read, SettingsError for words or terms that are none.
        """
        words, terms = self.word, self.terms
        _require_terms(words, terms)
        files = caption_files(self.captions, self.column, self.image)
        counts, rows, too_long = _counted(files, words, terms, self.seed)
        sheets, notes = list[tuple[StudyPicture, bytes]](), list[str]()
        if too_long:
            notes.append(f"{too_long:,} captions have more than {LONGEST_CAPTION:,} characters, and are left out.")
        if self.image is not None:
            picture, data, missing = _sheet(files, counts, self.images)
            sheets.append((picture, data))
            if missing:
                notes.append(f"{missing:,} of the drawn pictures are not there, and left out of the sheet.")
        return StudyContents(
            models=[],
            datasets=[],
            settings={
                "captions": str(self.captions),
                "rows with a caption": rows,
                "words": list(words),
                **{f"terms of {group}": list(own) for group, own in terms.items()},
                "seed": self.seed,
            },
            tables=[_table(counts, terms)],
            figures=[_figure(counts, terms)],
            sheets=sheets,
            notes=notes,
        )


def _require_terms(words: Sequence[str], terms: Mapping[str, Sequence[str]]) -> None:
    if len(terms) < 2 or not all(terms.values()):
        problem = "captions are counted by at least two groups, each with a term."
        raise SettingsError(problem, where="--terms", remedy=_WRITE)
    named = [term.lower() for own in terms.values() for term in own]
    for given, where in ((named, "--terms"), ([word.lower() for word in words], "--word")):
        if not all(text.strip() for text in given) or len(set(given)) < len(given):
            raise SettingsError("a text is empty, or given twice.", where=where, remedy="give each one once")


def _matcher(texts: Sequence[str]) -> re.Pattern[str]:
    """Whole words, in any case; the longest first, so that `flight attendant` is not read as `flight`."""
    alternatives = "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)


def _matched(
    words: Sequence[str], terms: Mapping[str, Sequence[str]]
) -> Callable[[str], tuple[list[str], frozenset[str]]]:
    """Caption -> (its words, in lower case; the groups that it names where it has a word). Repeated captions are
    matched once."""
    known = {word.lower() for word in words}
    group_of = {term.lower(): group for group, own in terms.items() for term in own}
    word_in, term_in = _matcher(words), _matcher(list(group_of))

    @lru_cache(maxsize=_KEPT)
    def found(text: str) -> tuple[list[str], frozenset[str]]:
        # Letters that Unicode folds into others ("\u017fhe", "h\u0130s") match in any case, and are no such word.
        own = sorted(known.intersection(match.lower() for match in word_in.findall(text)))
        named = group_of.keys() & {match.lower() for match in term_in.findall(text)} if own else ()
        return own, frozenset(group_of[term] for term in named)

    return found


def _counted(
    files: Sequence[CaptionFile], words: Sequence[str], terms: Mapping[str, Sequence[str]], seed: int
) -> tuple[dict[str, WordCount], int, int]:
    """Counts by word, how many captions were read, and how many were too long for it. A caption counts once for each
    of its words."""
    counts = {word: WordCount() for word in words}
    of_word = {word.lower(): counts[word] for word in words}
    matched, rng, read, too_long = _matched(words, terms), stream(seed, "study", "caption-words"), 0, 0
    every = ((place, *row) for place, file in enumerate(files) for row in file)
    for place, row, text, picture in every:
        if len(text) > LONGEST_CAPTION:
            too_long += 1
            continue
        read += 1
        own_words, groups = matched(text)
        for word in own_words:
            count = of_word[word]
            count.captions += 1
            if not groups:
                continue
            if len(groups) > 1:
                count.several += 1
            else:
                count.alone[next(iter(groups))] += 1
            heapq.heappush(count.drawn, (-float(rng.random()), place, row, picture))
            if len(count.drawn) > PICTURES:
                heapq.heappop(count.drawn)
    return counts, read, too_long


def _share(count: WordCount, group: str) -> Estimate:
    """Share of a group among the captions that name one group alone, with Wilson's interval."""
    part = share(count.alone[group], count.alone.total())
    return Estimate(value=part.value, lo=part.lo, hi=part.hi, n=part.of, why=None if part.of else "no such caption")


def _table(counts: Mapping[str, WordCount], terms: Mapping[str, Sequence[str]]) -> StudyTable:
    rows: list[list[StudyCell]] = [
        [word, *(_share(count, group) for group in terms), count.alone.total(), count.several, count.captions]
        for word, count in counts.items()
    ]
    return StudyTable(
        name="captions-of-words",
        title="Captions with a word, by the group that they name",
        source="table 3",
        columns=["word", *terms, "name one group", "name several", "with the word"],
        rows=rows,
        note="Shares of the captions that name one group, with Wilson's 95% interval as if captions were independent; "
        "copies of a caption are not told apart.",
    )


def _figure(counts: Mapping[str, WordCount], terms: Mapping[str, Sequence[str]]) -> StudyFigure:
    series = [series_of(group, list(counts), [_share(count, group) for count in counts.values()]) for group in terms]
    return StudyFigure(
        name="figure-captions-of-words",
        title="Share of each group in the captions with a word",
        source="table 3",
        kind="bars",
        x_label="word",
        y_label="share of the captions that name one group",
        series=series,
        reference={"equal shares": 1 / len(terms)},
    )


def _sheet(
    files: Sequence[CaptionFile], counts: Mapping[str, WordCount], images: Path | None
) -> tuple[StudyPicture, bytes, int]:
    """A row of pictures for each word, drawn evenly from its captions that name a group; and how many are missing."""
    chosen = [
        (word, place, row, named) for word, count in counts.items() for _, place, row, named in sorted(count.drawn)
    ]
    embedded = {
        place: file.pictures([row for _, at, row, named in chosen if at == place and named is None])
        for place, file in enumerate(files)
    }
    rows, missing = {word: list[bytes]() for word in counts}, 0
    for word, place, row, named in chosen:
        folder = files[place].path.parent if images is None else images
        data = embedded[place].get(row) if named is None else picture_within(folder, named)
        if data is None:
            missing += 1
        else:
            rows[word].append(data)
    picture = StudyPicture(
        name="pictures-of-words",
        title=f"Up to {PICTURES} pictures for each word, drawn from captions that also name a group",
        source="figure 8",
        alt=f"Pictures whose captions hold the words {', '.join(counts)}"[:300],
    )
    return picture, png_of(picture_rows(list(rows.items()))), missing
