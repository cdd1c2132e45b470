"""BBQ-V, before SB-Bench (Narnaware et al. 2025): a picture, a context and a question that neither answers."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any, Final

from fairgate.data.parquet_rows import HubTable
from fairgate.data.published.contract import HubFiles, Published, PublishedPart, PublishedRow, Reading, register
from fairgate.data.published.source_files import SourceFiles
from fairgate.ground.errors import DatasetError

CATEGORIES: Final = (
    *("Age", "Disability_status", "Gender_identity", "Nationality", "Physical_appearance"),
    *("Race_ethnicity", "Religion", "SES", "Sexual_orientation"),
)
POLARITIES: Final = ("neg", "nonneg")
_GROUPS: Final = {"category": CATEGORIES, "polarity": POLARITIES}
_COLUMNS: Final = ("id", "category", "question_polarity", "context", "question", "ans0", "ans1", "ans2", "label")
_OPTIONS: Final = {"ans0": "a", "ans1": "b", "ans2": "c"}
_ABSTAIN: Final = frozenset(
    {
        *("can't be determined", "cannot be determined", "can not be determined", "can't be known", "undetermined"),
        *("not enough info", "not enough information", "not known", "unknown"),
        *("cannot answer", "can't answer", "not answerable", "cannot be answered"),
    }
)
"""How BBQ writes the answer that the question cannot be answered."""
UNCLEAR: Final = "question without exactly one option that abstains"
ALIKE: Final = "question of which two options are the same"


def read(files: SourceFiles, part: str) -> Reading:
    """Each question with its picture; those that the probe could not ask are counted."""
    paths = files.matching(f"{part}-*.parquet")
    left_out: Counter[str] = Counter()
    rows: list[PublishedRow] = []
    for number, path in enumerate(paths):
        table = HubTable(path, "file_name")
        for at, values in table.rows(_COLUMNS):
            given = _item(values, f"{path}: row {at}")
            if isinstance(given, str):
                left_out[given] += 1
                continue
            rows.append(
                PublishedRow(
                    set_id=f"{part}-{number}-{at:06d}",
                    subject="question",
                    caption=json.dumps(given, ensure_ascii=False),
                    path=f"{path.stem}/{at}",
                    groups={"category": values["category"], "polarity": values["question_polarity"]},
                    image=partial(table.picture, at),
                    extra={"question_id": values["id"]},
                )
            )
    return Reading(rows, left_out, paths)


def _item(values: dict[str, Any], place: str) -> dict[str, object] | str:
    """The question as the probe reads it from captions, or why it is left out."""
    for column in _COLUMNS:
        if column != "label" and not isinstance(values[column], str):
            raise DatasetError(f"column '{column}' holds no text.", where=place, remedy="take the files as published")
    label, groups = str(values["label"]), (values["category"], values["question_polarity"])
    if label not in ("0", "1", "2") or groups[0] not in CATEGORIES or groups[1] not in POLARITIES:
        raise DatasetError(
            f"{label!r}, {groups[0]!r} and {groups[1]!r} are no label, category and polarity of BBQ-V.",
            where=place,
            remedy="take the files as they were published, with the names of their classes",
        )
    options = {name: [values[column].strip()] for column, name in _OPTIONS.items()}
    if len({text.casefold() for (text,) in options.values()}) < len(options):
        return ALIKE
    given_up = [name for name, (text,) in options.items() if text.casefold().rstrip(".") in _ABSTAIN]
    if len(given_up) != 1:
        return UNCLEAR
    asked = " ".join((values["context"].strip(), values["question"].strip()))
    return {"question": asked, "options": options, "abstain": given_up[0], "right": _OPTIONS[f"ans{label}"]}


def _part(about: str, size: str, name: str) -> PublishedPart:
    return PublishedPart(about, size, HubFiles("ucf-crcv/BBQ-V", (f"data/{name}-*.parquet", "README.md")), _GROUPS)


DATASET = Published(
    name="bbq_v",
    title="BBQ-V (SB-Bench): questions about pictures, which only a stereotype could answer",
    licence="CC-BY-NC-4.0",
    citation="Narnaware et al., SB-Bench: Stereotype Bias Benchmark for Large Multimodal Models, 2025.",
    counterfactual=False,
    read=read,
    parts={
        "real": _part("Questions about photographs.", "8 GB for both parts, as SB-Bench's card says", "real"),
        "synthetic": _part("Questions about generated pictures.", "8 GB for both parts", "synthetic"),
    },
    layout="give the folder with the dataset's tables real-*.parquet and synthetic-*.parquet",
    notes=(
        "Behind a form: fill it in on the dataset's page and log in with `hf auth login`; or give the files (--from).",
        "The layout is that of SB-Bench's card; what the tables of BBQ-V are called now is not confirmed.",
        "Captions are each picture's own question, for the probe `question` by `items: captions`. Which option "
        "abstains is known by its words. Which options a stereotype names is not read: no bias_ambiguous.",
    ),
)
register(DATASET)
