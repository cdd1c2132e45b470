"""COCO people (Zhao, Wang and Russakovsky 2021): photographs of COCO with perceived gender and skin tone.

The annotations come by a form, the photographs and captions from COCO.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from fairgate.data.coco import read_captions
from fairgate.data.published.contract import ByHand, Published, PublishedPart, PublishedRow, Reading, register
from fairgate.data.published.source_files import ABSENT, SourceFiles, label_lines
from fairgate.ground.errors import DatasetError

GENDERS: Final = ("Female", "Male")
TONES: Final = ("Light", "Dark")
UNSURE: Final = "image whose gender or skin tone is not one of two"
_TABLE: Final = "images_val2014.csv"
_CAPTIONS: Final = "captions_val2014.json"


def read(files: SourceFiles, part: str) -> Reading:  # noqa: ARG001 -- there is one part
    """Photographs with one perceived gender and one skin tone; the others are counted by reason."""
    tables = [files.one(_TABLE), *files.matching(_CAPTIONS)[:1]]
    captions = read_captions(tables[1]) if len(tables) > 1 else {}
    photographs = files.by_tail(1)
    left_out: Counter[str] = Counter()
    rows: list[PublishedRow] = []
    for fields, place in label_lines(tables[0], "id", "bb_gender", "bb_skin"):
        if not (fields["id"].isascii() and fields["id"].isdecimal() and len(fields["id"]) <= 12):
            raise DatasetError(
                f"'{fields['id'][:40]}' is no number of a photograph.",
                where=place,
                remedy="take the authors' table, whole numbers without a decimal point",
            )
        number = int(fields["id"])
        name = f"COCO_val2014_{number:012d}.jpg"
        if fields["bb_gender"] not in GENDERS or fields["bb_skin"] not in TONES:
            left_out[UNSURE] += 1
        elif name not in photographs:
            left_out[ABSENT] += 1
        else:
            groups = {"gender": fields["bb_gender"], "skin": fields["bb_skin"]}
            caption = captions.get(number, [""])[0].strip()
            rows.append(PublishedRow(f"{number:012d}", name, groups, photographs[name], caption=caption))
    return Reading(rows, left_out, [*tables, *files.archives], {"captions": bool(captions)})


DATASET = Published(
    name="coco_people",
    title="COCO people: photographs of COCO with perceived gender and skin tone",
    licence="annotations by form; photographs under the terms of Flickr, captions CC-BY-4.0",
    citation="Zhao, Wang and Russakovsky, Understanding and Evaluating Racial Biases in Image Captioning, ICCV 2021; "
    "Lin et al., Microsoft COCO, ECCV 2014.",
    counterfactual=False,
    read=read,
    parts={
        "images": PublishedPart(
            "Photographs of val2014 whose people are of one perceived gender and one skin tone.",
            "6.6 GB of photographs",
            ByHand(
                "https://princetonvisualai.github.io/imagecaptioning-bias/",
                "Ask for images_val2014.csv by the form on that page, and put it into a folder with val2014.zip and, "
                "for captions, captions_val2014.json of annotations_trainval2014.zip (images.cocodataset.org).",
            ),
            {"gender": GENDERS, "skin": TONES},
        )
    },
    layout="put COCO's val2014.zip, or what it unpacks to, into the folder of the table",
    notes=(
        "Gender and skin tone are what annotators perceived, of all people of a photograph together; those that are "
        "unsure or of both are left out and counted.",
        "The caption is the first of five; without captions_val2014.json it is empty.",
    ),
)
register(DATASET)
