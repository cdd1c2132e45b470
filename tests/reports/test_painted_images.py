"""A generator's report shows what it painted, by group as read, next to what it is compared with."""

from __future__ import annotations

import io

from PIL import Image

from fairgate.records import RunRecord
from fairgate.reports import Painted, render_html
from fairgate.reports.contact_sheet import contact_sheets


def small(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (8, 8), shade).save(buffer, "JPEG")
    return buffer.getvalue()


READ = {"baseline": ["woman", "man", "woman", "man"], "candidate": ["man", "man", "woman", "man"]}
SUBJECTS = ["nurse", "doctor", "nurse", "doctor"]
PAINTED = {"jobs": {who: Painted(SUBJECTS, read, {row: small(row) for row in (0, 1, 2)}) for who, read in READ.items()}}


def test_each_model_has_its_own_count_and_pictures_of_every_group_and_what_moved_comes_first() -> None:
    nurse, doctor = contact_sheets(PAINTED, 12)
    assert (nurse.subject, doctor.subject) == ("nurse", "doctor")
    words = {group: [(strip.words, len(strip.uris)) for strip in strips] for group, strips in nurse.groups.items()}
    assert words == {
        "woman": [("baseline: 2 of 2 images", 2), ("candidate: 1 of 2 images", 1)],
        "man": [("baseline: 0 of 2 images", 0), ("candidate: 1 of 2 images", 1)],
    }
    assert [strip.words for strip in doctor.groups["man"]] == ["baseline: 2 of 2 images", "candidate: 2 of 2 images"]


def test_no_more_pictures_than_fit_are_shown() -> None:
    shown = [
        len(strip.uris) for sheet in contact_sheets(PAINTED, 1) for group in sheet.groups.values() for strip in group
    ]
    assert max(shown) == 1
    assert contact_sheets(PAINTED, 0) == []


def test_the_page_says_whose_pictures_it_lacks(record: RunRecord) -> None:
    both = render_html(record, None, None, PAINTED)
    alone = render_html(record, None, None, {"jobs": {"candidate": PAINTED["jobs"]["candidate"]}})
    missing = "Those of the baseline were not painted in this run"
    assert missing in alone
    assert missing not in both
    assert (both.count("nurse, read as woman"), both.count("nurse, read as man")) == (3, 1)
    assert "Painted images" not in render_html(record, None)
