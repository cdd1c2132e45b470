"""A study's record becomes a page, CSV files, figures and terminal tables, and none of them says more than it holds."""

import csv
import io
import json
import re

import pytest
from rich.console import Console

from fairgate.records import (
    DatasetInfo,
    Environment,
    Estimate,
    FigureSeries,
    StudyFigure,
    StudyModel,
    StudyPicture,
    StudyRecord,
    StudyTable,
)
from fairgate.reports import study_files, study_tables

NOTICE = "drawn portraits: a test instrument"


def record(*figures, tables=(), pictures=(), notes=()):
    data = DatasetInfo(
        name="people", version="v1", fingerprint="f" * 64, counterfactual=True, attributes={}, notice=NOTICE
    )
    return StudyRecord(
        study="example",
        title="An example <b>",
        paper="Nobody 2023",
        models=[StudyModel(name="base", uri="hf:base", fingerprint="a" * 64)],
        datasets=[data],
        settings={"strengths": ["0.6", "1.0"], "seed": 0},
        tables=list(tables),
        figures=list(figures),
        pictures=list(pictures),
        notes=list(notes),
        environment=Environment(fairgate="0.2", python="3.11", platform="linux", device="cpu", packages={}),
        command="fairgate study example",
        created_at="2026-01-01T00:00:00+00:00",
        seconds=1.0,
    )


TABLE = StudyTable(
    name="table-1",
    title="Flips",
    source="table 1",
    columns=["group", "flips", "images", "class"],
    rows=[
        ["=SUM(A1)", Estimate(value=0.123456789, lo=0.1, hi=0.2, n=25), 25, "high"],
        ["light", Estimate(value=None, why="no face was found"), 0, "low"],
    ],
)


def figure(kind, x):
    series = [
        FigureSeries(name="men", x=x, y=[0.1, None], lo=[0.0, None], hi=[0.2, None]),
        FigureSeries(name="$women", x=x, y=[0.3, 0.4]),
    ]
    return StudyFigure(
        name=f"figure-{kind}", title="Flips by strength", source="figure 3", kind=kind, x_label="edit strength",
        y_label="share of edits that flip", series=series, reference={"chance": 0.5}, x_log=kind == "lines",
    )  # fmt: skip


def test_a_csv_has_all_digits_limits_counts_and_the_notice_and_no_formula():
    rows = list(csv.reader(io.StringIO(study_files(record(tables=[TABLE]), {})["table-1.csv"].decode())))
    assert rows[0] == [
        *("group", "flips", "flips, lo", "flips, hi", "flips, n", "flips, why", "images", "class", "notice")
    ]
    assert rows[1] == ["'=SUM(A1)", "0.123456789", "0.1", "0.2", "25", "", "25", "high", NOTICE]
    assert rows[2] == ["light", "", "", "", "", "no face was found", "0", "low", NOTICE]


def test_a_terminal_table_says_why_a_number_is_missing():
    console = Console(width=120, record=True, file=io.StringIO())
    for table in study_tables(record(tables=[TABLE])):
        console.print(table)
    text = console.export_text()
    assert re.search(r"=SUM\(A1\) +0\.123 +25 +high *\n +\[0\.100, 0\.200\]", text)
    assert "– (no face was found)" in text


def test_columns_without_room_follow_with_all_that_tells_equal_names_apart():
    number = Estimate(value=0.5, lo=0.4, hi=0.6)
    rows = [[group, words, number, number] for group in ("dark", "light") for words in ("high-paid", "low-paid")]
    wide = TABLE.model_copy(update={"columns": ["group", "words", "flips, 0.8", "ITA change, 0.8"], "rows": rows})
    console = Console(width=40, record=True, file=io.StringIO())
    for table in study_tables(record(tables=[wide]), 40):
        console.print(table)
    text = console.export_text()
    assert re.search(r"further columns.*dark +high-paid .*dark +low-paid .*light +high-paid ", text, re.DOTALL)
    assert max(map(len, text.splitlines())) <= 40


@pytest.mark.parametrize(("kind", "x"), [("bars", ["doctor", "nurse"]), ("lines", [0.6, 1.0]), ("points", [0.6, 1.0])])
def test_a_figure_is_the_same_bytes_again_and_fetches_nothing(kind, x):
    one = record(figure(kind, x))
    drawn = study_files(one, {})[f"figure-{kind}.svg"]
    assert drawn == study_files(one, {})[f"figure-{kind}.svg"]
    assert not re.search(rb'(href|src)="http', drawn)


def test_a_map_names_every_series_with_its_number_and_marks_its_side_of_0():
    shades = {"1 plant": Estimate(value=-0.3, lo=-0.4, hi=-0.2), "2 shelf": Estimate(value=0.1, lo=-0.1, hi=0.3)}
    series = [FigureSeries(name=name, x=[0.0, 1.0], y=[0.0, 1.0], shade=shade) for name, shade in shades.items()]
    drawn = figure("points", [0.6, 1.0]).model_copy(
        update={"kind": "map", "series": series, "shade_label": "share of men above all"}
    )
    svg = study_files(record(drawn), {})["figure-points.svg"].decode()
    for text in ("1 plant −0.300", "2 shelf +0.100", "share of men above all", "below 0", "the interval contains 0"):
        assert f"<!-- {text} -->" in svg
    assert svg == study_files(record(drawn), {})["figure-points.svg"].decode()


def test_the_page_holds_tables_figures_pictures_and_their_notice_and_escapes_titles():
    sheet = StudyPicture(name="sheet", title="Edits", source="figure 4", alt="faces in a row")
    one = record(figure("bars", ["doctor", "nurse"]), tables=[TABLE], pictures=[sheet], notes=["read this"])
    page = study_files(one, {"sheet": b"\x89PNG"})["study.html"].decode()
    assert "An example &lt;b&gt;" in page
    for text in (NOTICE, "table 1", "figure 3", "faces in a row", "read this", "fairgate study example"):
        assert text in page
    assert page.count('src="data:image/') == 2
    assert "http-equiv" in page
    assert "default-src 'none'" in page.replace("&#39;", "'")


def test_the_record_is_read_back_as_it_was_written():
    one = record(figure("lines", [0.6, 1.0]), tables=[TABLE])
    written = study_files(one, {})["study.json"]
    assert StudyRecord.model_validate_json(written) == one
    assert json.loads(written)["tables"][0]["rows"][1][1]["value"] is None


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="has 4 columns, and a row of 1"):
        StudyTable(**{**TABLE.model_dump(), "rows": [["alone"]]})
