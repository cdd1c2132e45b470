"""MultiBBQ (Chen et al. 2026): BBQ's questions about generated pictures of two people who differ in one group."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, Final

from fairgate.data.parquet_rows import HubTable
from fairgate.data.published.bbq_v import ALIKE, POLARITIES
from fairgate.data.published.contract import HubFiles, Published, PublishedPart, PublishedRow, Reading, register
from fairgate.data.published.source_files import SourceFiles
from fairgate.ground.errors import DatasetError

CATEGORIES: Final = ("race", "gender", "religion", "age")
CONTEXTS: Final = ("ambiguous", "disambiguated")
_ALONE: Final = {"category": CATEGORIES, "polarity": POLARITIES}
_CONFIGS: Final = {
    "language": "gpt_image_gen_visual_language",
    "visual": "gpt_image_gen_visual_only",
    "imagen_language": "imagen4ultra_image_gen_visual_language",
    "imagen_visual": "imagen4ultra_image_gen_visual_only",
}
"""By part, the folder of its tables."""
_TEXTS: Final = ("category", "ambig_context_masked", "disambig_context", "neg_q", "nonneg_q")
_NAMES: Final = ("stereotype_group_name", "nonstereotype_group_name")
_PLACES: Final = ("unk_label_idx", "stereotype_group_idx", "nonstereotype_group_idx")
_RIGHT: Final = ("neg_label_idx", "nonneg_label_idx")
_COLUMNS: Final = (*_TEXTS, *_NAMES, *_PLACES, *_RIGHT, "q_id", "c_id", "options_masked")


def read(files: SourceFiles, part: str) -> Reading:
    """The questions about each picture, which are one set; those whose options cannot be told apart are counted."""
    paths = files.matching(f"{_CONFIGS[part]}/test-*.parquet")
    left_out: Counter[str] = Counter()
    rows: list[PublishedRow] = []
    for path in paths:
        table = HubTable(path)
        picture = lru_cache(maxsize=1)(table.picture)  # going back would read the row group again
        for at, values in table.rows(_COLUMNS):
            asked = list(_asked(values, f"{path}: row {at}", with_context=not part.endswith("visual")))
            if len({text.casefold() for text in values["options_masked"]}) < len(values["options_masked"]):
                left_out[ALIKE] += len(asked)
                continue
            name = f"{values['category']}-{values['q_id']:03d}-{values['c_id']:03d}"
            for member, groups, item in asked:
                rows.append(
                    PublishedRow(
                        set_id=name,
                        member=member,
                        subject="question",
                        caption=json.dumps(item, ensure_ascii=False),
                        path=f"{_CONFIGS[part]}/{name}/{member}",
                        groups=groups,
                        image=partial(picture, at),
                        extra={column: values[column] for column in _NAMES},
                    )
                )
    return Reading(rows, left_out, paths)


def _asked(
    values: Mapping[str, Any], place: str, *, with_context: bool
) -> Iterator[tuple[str, dict[str, str], dict[str, object]]]:
    """Member, groups and caption of each question about a picture. Raises DatasetError for another layout."""
    options, places = values["options_masked"], [values[column] for column in _PLACES]
    texts = [values[column] for column in _TEXTS]
    whole = (
        isinstance(options, list) and len(options) == 3 and all(isinstance(each, str) for each in (*options, *texts))
    )
    numbers = all(type(values[column]) is int for column in ("q_id", "c_id", *_PLACES))
    right = all(values[column] in places[1:] for column in _RIGHT)
    if not (whole and numbers and right and sorted(places) == [0, 1, 2] and values["category"] in CATEGORIES):
        raise DatasetError(
            "the row has no question with three options and their places, of a category of MultiBBQ.",
            where=place,
            remedy="take the tables as they were published",
        )
    abstain, stereotype, other = ("abc"[at] for at in places)
    written = {letter: [text] for letter, text in zip("abc", options, strict=True)}
    for context in CONTEXTS if with_context else CONTEXTS[:1]:
        clear = context == CONTEXTS[1]
        told = [values["ambig_context_masked"], *([values["disambig_context"]] if clear else [])]
        for polarity, leaning, column in zip(POLARITIES, (stereotype, other), _RIGHT, strict=True):
            groups = {"category": values["category"], "polarity": polarity}
            question = values[f"{polarity}_q"]
            item = {
                "question": f"{' '.join(told)}\n\n{question}" if with_context else question,
                "options": written,
                "abstain": abstain,
                "right": "abc"[values[column]] if clear else abstain,
                "stereotype": [leaning],
            }
            yield f"{context}-{polarity}", groups | ({"context": context} if with_context else {}), item


def _part(about: str, name: str) -> PublishedPart:
    source = HubFiles("MLL-Lab/MultiBBQ", (f"{_CONFIGS[name]}/test-*.parquet", "README.md"))
    groups = _ALONE if name.endswith("visual") else {**_ALONE, "context": CONTEXTS}
    return PublishedPart(about, "2.7 GB for all parts, as its card says", source, groups)


DATASET = Published(
    name="multibbq",
    title="MultiBBQ: questions about two people who differ in one group, which the picture alone does not answer",
    licence="CC-BY-4.0",
    citation="Chen et al., Fairness Failure Modes of Multimodal LLMs, 2026; Parrish et al., BBQ, 2022.",
    counterfactual=False,
    read=read,
    parts={
        "language": _part("Four questions about each picture of GPT-Image-1, with a context.", "language"),
        "visual": _part("Two questions about each picture of GPT-Image-1, without a context.", "visual"),
        "imagen_language": _part("The first part with pictures of Imagen 4 Ultra.", "imagen_language"),
        "imagen_visual": _part("The second part with pictures of Imagen 4 Ultra.", "imagen_visual"),
    },
    layout=f"give the folder with {next(iter(_CONFIGS.values()))}/test-*.parquet",
    notes=(
        "Captions are questions for the probe `question` by `items: captions`: the masked context and options, as its "
        "authors ask; a second context sentence names the groups. With `bias_ambiguous` and `bias_disambiguated`.",
        "Asked who is good at something, the stereotype's answer is the other group, as in BBQ.",
        "The questions about a picture are one set: they are not independent. Each holds a copy of the picture.",
        "For evaluation, not for training. Groups are those that were prompted.",
    ),
)
register(DATASET)
