"""Words and pronouns counted in real COCO captions are those of a plain count."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fairface import REAL

from fairgate.studies.papers import StudyPlace
from fairgate.studies.papers.caption_words import CaptionWordsStudy

CAPTIONS = REAL / "coco_captions_val2017_1200.json"
WORDS = ["skateboard", "umbrella", "tennis", "phone"]


@pytest.mark.skipif(not CAPTIONS.is_file(), reason="the captions are not here")
def test_counts_in_coco_are_those_of_a_plain_count(tmp_path: Path) -> None:
    captions = [one["caption"] for one in json.loads(CAPTIONS.read_text(encoding="utf-8"))["annotations"]]
    lines = "".join(json.dumps({"caption": text}) + "\n" for text in captions)
    (tmp_path / "coco.jsonl").write_text(lines, encoding="utf-8")
    (table,) = CaptionWordsStudy(captions=tmp_path / "coco.jsonl", word=WORDS).run(StudyPlace()).tables
    men, women = {"he", "him", "his", "himself"}, {"she", "her", "hers", "herself"}
    texts = [set(re.findall(r"\w+", text.lower())) for text in captions]
    for word, row in zip(WORDS, table.rows, strict=True):
        held = [text for text in texts if word in text]
        his = sum(bool(text & men) and not text & women for text in held)
        hers = sum(bool(text & women) and not text & men for text in held)
        both = sum(bool(text & women) and bool(text & men) for text in held)
        assert row[3:] == [his + hers, both, len(held)]
        assert row[1].value == pytest.approx(his / (his + hers)), word
