"""`fairgate study caption-words` counts the captions with a word by the group that they name, whatever holds them."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet as pq
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import StudyRecord

CAPTIONS = [
    "A nurse washes her hands",
    "the NURSE and her patient",
    "Nurse: she's on duty",
    "a nurse in his uniform",
    "a nurse tells him about her day",
    "a nurse at work",
    "nurses and their schoolhouse",
    "The farmer, proud of his cow",
    "farmer",
    "",
    "she is a CEO.",
    "his CEO said that he himself, the ceo, is late",
]


def png(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (16, 16), (shade, 30, 30)).save(buffer, "PNG")
    return buffer.getvalue()


def write_parquet(folder: Path) -> Path:
    """Two files, pictures as bytes, the row groups small."""
    folder = folder / "shards"
    folder.mkdir()
    for place in range(2):
        part = CAPTIONS[place * 6 : place * 6 + 6]
        pictures = [{"bytes": png(20 * row), "path": None} for row in range(6)]
        pq.write_table(pa.table({"caption": part, "image": pictures}), folder / f"{place}.parquet", row_group_size=4)
    return folder


def write_paths(folder: Path) -> Path:
    """Parquet with paths, which come first."""
    write_pictures(folder)
    paths = [f"{at}.png" for at in range(len(CAPTIONS))]
    pq.write_table(pa.table({"image": paths, "caption": [text or None for text in CAPTIONS]}), folder / "paths.parquet")
    return folder / "paths.parquet"


def write_csv(folder: Path) -> Path:
    write_pictures(folder)
    with (folder / "captions.csv").open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([["caption", "image"], *([text, f"{at}.png"] for at, text in enumerate(CAPTIONS))])
    return folder / "captions.csv"


def write_jsonl(folder: Path) -> Path:
    write_pictures(folder)
    lines = [json.dumps({"caption": text or None, "image": f"{at}.png"}) for at, text in enumerate(CAPTIONS)]
    (folder / "captions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / "captions.jsonl"


def write_pictures(folder: Path) -> None:
    for at in range(len(CAPTIONS)):
        (folder / f"{at}.png").write_bytes(png(20 * at))


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["study", "caption-words", *words], env={"CI": "", "COLUMNS": "140"})
    return result.exit_code, result.output


def studied(source: Path, *words: str) -> tuple[dict[str, list[Any]], StudyRecord]:
    out = source.parent / "out"
    code, output = run("--captions", str(source), "--out", str(out), *words)
    assert code == 0, output
    record = StudyRecord.model_validate_json((out / "study.json").read_bytes())
    return {str(row[0]): row[1:] for row in record.tables[0].rows}, record


@pytest.mark.parametrize("write", [write_parquet, write_paths, write_csv, write_jsonl])
def test_counts_are_those_by_hand_in_every_format_and_pictures_are_drawn(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    found, record = studied(write(tmp_path), "--image", "image")
    male, female, one_group, several, with_word = found["nurse"]
    assert (male.value, female.value, one_group, several, with_word) == (0.25, 0.75, 4, 1, 6)
    assert (male.lo, male.hi) == pytest.approx((0.0456, 0.6994), abs=1e-4), "Wilson, 1 of 4"
    assert [cell if isinstance(cell, int) else cell.value for cell in found["farmer"]] == [1, 0, 1, 0, 2]
    assert [cell if isinstance(cell, int) else cell.value for cell in found["ceo"]] == [0.5, 0.5, 2, 0, 2]
    assert found["maid"][0].value is None, "no caption, no share"
    assert record.settings["rows with a caption"] == len(CAPTIONS) - 1
    sheet = Image.open(tmp_path / "out" / "pictures-of-words.png").convert("RGB")
    shades = {colour for _, colour in sheet.getcolors(1 << 20) or [] if colour[1:] == (30, 30)}
    assert len(shades) >= 5, "pictures of nurses, a farmer and chiefs"
    assert record.notes == []


def test_ones_own_words_and_groups_are_counted(tmp_path: Path) -> None:
    terms = ["--terms", "old=patient", "--terms", "young=uniform,duty"]
    found, _ = studied(write_csv(tmp_path), "--word", "nurse", *terms)
    assert [cell if isinstance(cell, int) else cell.value for cell in found["nurse"]] == [1 / 3, 2 / 3, 3, 0, 6]


def test_a_picture_outside_of_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png(200))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    named = ["../secret.png", str(tmp_path / "secret.png"), "link.png", "https://example.org/1.png"]
    rows = "".join(f"a nurse and her {name},{name}\n" for name in named)
    (folder / "captions.csv").write_text(f"caption,image\n{rows}", encoding="utf-8")
    _, record = studied(folder / "captions.csv", "--image", "image")
    assert record.notes == ["4 of the drawn pictures are not there, and left out of the sheet."]


@pytest.mark.parametrize(
    ("name", "content", "words", "message"),
    [
        ("none.csv", None, [], "does not exist"),
        ("one.txt", b"a", [], "there is no file of captions"),
        ("one.csv", b"text\nnurse\n", [], "no column 'caption'"),
        ("one.jsonl", b'{"text": "nurse"}\n', [], "no column 'caption'. where"),
        ("one.jsonl", b'{"caption": 1}\n', [], "'caption' is no text"),
        ("one.jsonl", b"[" * 100_000, [], "cannot be read"),
        ("one.parquet", b"PAR1", [], "cannot be read"),
        ("one.csv", b"caption\nnurse\n", ["--terms", "male=he"], "at least two groups"),
        ("one.csv", b"caption\nnurse\n", ["--terms", "he"], "gives no new group its terms"),
        ("one.csv", b"caption\nnurse\n", ["--terms", "a=he", "--terms", "b=HE"], "given twice"),
        ("one.csv", b"caption\nnurse\n", ["--image", "picture"], "no column 'picture'"),
    ],
)
def test_what_cannot_be_counted_is_refused_with_its_place(
    tmp_path: Path, name: str, content: bytes | None, words: list[str], message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, output = run("--captions", str(tmp_path / name), *words)
    assert (code, message in " ".join(output.split())) == (4, True), output


def test_a_parquet_file_with_numbers_for_captions_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"caption": [1, 2]}), tmp_path / "one.parquet")
    code, output = run("--captions", str(tmp_path / "one.parquet"))
    assert (code, "column 'caption' holds no text" in output) == (4, True), output


def test_a_caption_longer_than_a_caption_is_left_out_and_said(tmp_path: Path) -> None:
    longest, longer = "nurse she ".ljust(1 << 16, "."), "nurse he ".ljust((1 << 16) + 1, ".")
    pq.write_table(pa.table({"caption": [longest, longer, longer]}), tmp_path / "long.parquet")
    found, record = studied(tmp_path / "long.parquet")
    male, female, one_group, *_ = found["nurse"]
    assert (male.value, female.value, one_group, record.settings["rows with a caption"]) == (0, 1, 1, 1)
    assert record.notes == ["2 captions have more than 65,536 characters, and are left out."]


def test_a_caption_that_many_rows_repeat_is_matched_once(tmp_path: Path) -> None:
    held = pa.DictionaryArray.from_arrays(pa.array([0] * 50_000, pa.int32()), pa.array(["nurse she " * 6000]))
    pq.write_table(pa.table({"caption": held}), tmp_path / "repeated.parquet", compression="zstd")
    assert (tmp_path / "repeated.parquet").stat().st_size < 5000
    started = time.process_time()
    found, _ = studied(tmp_path / "repeated.parquet")
    assert found["nurse"][2] == 50_000
    assert time.process_time() - started < 15, "3 GB of text, were each row matched"


def test_letters_that_unicode_folds_into_others_make_no_word(tmp_path: Path) -> None:
    texts = ["the nur\u017fe and her", "a nurse, \u017fhe", "a nurse, h\u0130s", "\u00c4RZTIN: she"]
    lines = "".join(json.dumps({"caption": text}) + "\n" for text in texts)
    (tmp_path / "one.jsonl").write_text(lines, encoding="utf-8")
    found, _ = studied(tmp_path / "one.jsonl", "--word", "nurse", "--word", "\u00e4rztin")
    assert found["nurse"][2:] == [0, 0, 2]
    assert found["\u00e4rztin"][2:] == [1, 0, 1], "other letters in any case are the same word"


def test_a_path_that_is_none_is_a_picture_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "ring.png").symlink_to("ring.png")
    named = ["\ud800.png", "\0", "x" * 5000, "ring.png"]
    lines = "".join(json.dumps({"caption": "a nurse and her", "image": one}) + "\n" for one in named)
    (tmp_path / "one.jsonl").write_text(lines, encoding="utf-8")
    _, record = studied(tmp_path / "one.jsonl", "--image", "image")
    assert record.notes == ["4 of the drawn pictures are not there, and left out of the sheet."]
