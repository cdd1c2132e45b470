"""What captions and photographs were edited by (Smith et al. 2023, tables 4, 5 and 7): gendered words, captions before
and after them, and the editor's instructions, as releases record them."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile, zip_longest
from typing import Any

from fairgate.builds.steps import WIDER_WORDS, WORDS
from fairgate.records import StudyCell, StudyTable
from fairgate.studies.papers.captioned import Captioned


def edit_tables(original: Captioned, gensynth: Captioned) -> list[StudyTable]:
    """Tables 4, 5 and 7."""
    recorded = gensynth.dataset.manifest.recipe.get("knobs")
    settings = recorded if isinstance(recorded, dict) else {}
    words = WIDER_WORDS if settings.get("gender_words") == "wider" else WORDS
    return [
        StudyTable(
            name="gendered-words",
            title="Words that name a gender, and what neutral captions have in their place",
            source="table 4",
            columns=["masculine", "feminine", "neutral"],
            rows=[list(row) for row in words.rows],
            note="`his` and `her` before a noun become `their`; the paper prints their for his/hers.",
        ),
        _captions_table(original, gensynth),
        _instructions_table(gensynth, settings.get("instructions")),
    ]


def _captions_table(original: Captioned, gensynth: Captioned) -> StudyTable:
    """Captions of the edited photographs, neutral ones to be named in a suite, and what each was most often."""
    before: dict[str, Counter[str]] = {}
    for row in original.rows_of(gensynth.set_id):
        pairs = zip(original.columns["captions"][row], original.columns["neutral_captions"][row], strict=False)
        for caption, neutral in pairs:
            before.setdefault(neutral, Counter())[caption] += 1
    counts = Counter(gensynth.neutral)
    rows: list[list[StudyCell]] = []
    for neutral in sorted(counts, key=lambda text: (-counts[text], text)):
        originals = before.get(neutral, Counter())
        rows.append([min(originals, key=lambda text: (-originals[text], text), default=None), neutral, counts[neutral]])
    return StudyTable(
        name="captions",
        title="Captions and their neutral form, and of how many photographs",
        source="section 3.2; table 5",
        columns=["original", "neutral", "captions"],
        rows=rows,
        note="Of several originals with one neutral form the most frequent; captions count the neutral form.",
    )


def _instructions_table(gensynth: Captioned, recorded: Any) -> StudyTable:
    first, second = gensynth.groups
    by_group = recorded if isinstance(recorded, dict) else {}
    texts = [by_group.get(group) for group in (second, first)]
    split = [[str(text).split() for text in own] if isinstance(own, list) else [] for own in texts]
    rows: list[list[StudyCell]] = []
    for pair in zip_longest(*split, fillvalue=[]):
        shared = [one for one, other in takewhile(lambda words: words[0] == words[1], zip(*pair, strict=False))]
        rows.append([" ".join([*shared, "{ }"]), *(" ".join(words[len(shared) :]) for words in pair)])
    return StudyTable(
        name="instructions",
        title="Instructions that the editor was given",
        source="table 7",
        columns=["template", second, first],
        rows=rows,
        note="" if rows else f"{gensynth.name} records no instructions.",
    )
