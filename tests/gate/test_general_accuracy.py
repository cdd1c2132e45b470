"""A second dataset, of classes and no groups: a checkpoint may be less biased, and must not have lost accuracy."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate.data import open_dataset, write_dataset
from fairgate.gate import prepare
from fairgate.interfaces.cli.main import app
from fairgate.records import AuditCollection, AuditRecord
from fairgate.reports import collection_html, render_latex, trade_off_tables

CLASSES = [f"thing {place}" for place in range(20)]
OF_EACH = 20
IMAGES = len(CLASSES) * OF_EACH
TEXTS = [f"a photo of a {name}" for name in CLASSES]


def ranks(**moved: tuple[int, slice]) -> np.ndarray:
    """The place of every image's true label: 1 of most, 3 of 100; and another place of some."""
    places = np.where(np.arange(IMAGES) % 4 == 0, 3, 1)
    for place, images in moved.values():
        places[images] = place
    return places


def write_table(path: Path, places: np.ndarray, seed: int) -> None:
    """Logits of every class for every image, whose true label has the place that is wanted."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["set_id", "member", *TEXTS])
        for image, place in enumerate(places):
            logits = rng.permutation(len(CLASSES))
            true, wanted = image // OF_EACH, int(np.flatnonzero(logits == len(CLASSES) - place)[0])
            logits[[true, wanted]] = logits[[wanted, true]]
            writer.writerow([f"image-{image:03d}", "only", *logits])


SUITE = f"""\
schema: 1
suite: things
dataset: things
model: scores:same.csv?values=logit
baseline: model:scores:before.csv?values=logit
probes:
  labels: {{kind: zero_shot_classification, template: "a photo of {{a_label}}", labels: {CLASSES}, ranks: true}}
decision: {{draws: 500}}
checks:
  - {{id: top-1, probe: labels, metric: accuracy, no_worse_than: baseline, margin: 0.02}}
  - {{id: top-5, probe: labels, metric: accuracy_at_k, k: 5, no_worse_than: baseline, margin: 0.02}}
"""


@pytest.fixture
def things(toy: Toy) -> Toy:
    write_dataset(
        toy.root / "datasets" / "things" / "v1",
        (
            {
                "path": f"{image}.png",
                "set_id": f"image-{image:03d}",
                "member": "only",
                "subject": CLASSES[image // OF_EACH],
            }
            for image in range(IMAGES)
        ),
        name="things",
        version="v1",
        attributes={},
        recipe={"kind": "import"},
        licence="CC0-1.0",
        counterfactual=False,
    )
    toy.write_suite(SUITE, "things")
    write_table(toy.root / "before.csv", ranks(), 1)
    return toy


def run(toy: Toy, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*words, "--root", str(toy.root)], env={"CI": "", "COLUMNS": "200"})
    return result.exit_code, result.output


def judged(toy: Toy, places: np.ndarray) -> tuple[int, str]:
    write_table(toy.root / "now.csv", places, 2)
    return run(toy, "check", "things", "--model", "scores:now.csv?values=logit", "--mlflow", "off", "--cache", "off")


@pytest.mark.parametrize(
    ("moved", "code", "fails"),
    [
        ({}, 0, []),
        ({"first": (2, slice(1, 3))}, 0, []),
        ({"first": (2, slice(1, 160, 4))}, 1, ["✗ accuracy fell by 0.100 (0.750 to 0.650)"]),
        ({"fifth": (9, slice(0, 160, 4))}, 1, ["✗ accuracy@5 fell by 0.100 (1.000 to 0.900)"]),
        ({"first": (9, slice(1, 160, 4))}, 1, ["✗ accuracy fell by 0.100", "✗ accuracy@5 fell by 0.100"]),
    ],
    ids=["as before", "two answers turn", "the first label", "one of the first five", "both"],
)
def test_a_planted_loss_of_accuracy_fails_by_name_and_none_passes(
    things: Toy, moved: Mapping[str, tuple[int, slice]], code: int, fails: list[str]
) -> None:
    ended, output = judged(things, ranks(**moved))
    assert ended == code, output
    for words in fails:
        assert words in output
    assert output.count("✗ accuracy") == len(fails)


def test_a_first_suite_for_classes_without_groups_asks_for_accuracy_alone(things: Toy) -> None:
    words = ["suite", "new", "objects", "--dataset", "things", "--baseline", "none", "--no-measured"]
    code, output = run(things, *words, "--model", "scores:before.csv?values=logit")
    assert code == 0, output
    planned = prepare("objects", things.root).planned
    assert [(item.item, item.check.metric, item.check.k) for item in planned] == [
        ("accuracy", "accuracy", None),
        ("accuracy-at-5", "accuracy_at_k", 5),
    ]
    code, output = run(things, *words, "--model", "scores:before.csv?values=logit", "--truth", "gender")
    assert code == 4


def audited(toy: Toy, suite: str, **tables: str) -> AuditRecord:
    """An audit of tables, under names of models that another suite's tables can have too."""
    named = [word for table in tables.values() for word in ("--model", f"scores:{table}.csv?values=logit")]
    code, output = run(toy, "audit", suite, *named, "--report", str(toy.root / "report"), "--cache", "off")
    assert code == 0, output
    text = (toy.root / "report" / "audit.json").read_text(encoding="utf-8")
    for name, table in tables.items():
        text = text.replace(f'"name": "{table}.csv"', f'"name": "{table}"').replace(f'"{table}"', f'"{name}"')
        text = text.replace(f"scores:{table}.csv?values=logit", name)
    return AuditRecord.model_validate_json(text)


SEARCHES = """\
schema: 1
suite: jobs
dataset: toy
probes:
  search: {kind: retrieval, prompts: ["{subject}", "a picture of {a_subject}"]}
decision: {draws: 500}
checks:
  - {id: skew, probe: search, metric: max_skew_at_k, k: 60, over: each, at_most: 0.45}
  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.9}
"""


def test_audits_of_both_suites_show_accuracy_beside_max_skew(things: Toy) -> None:
    things.write_suite(SEARCHES)
    write_table(things.root / "now.csv", ranks(first=(9, slice(1, 160, 4))), 2)
    jobs = audited(things, "jobs", main="base", change="biased")
    general = audited(things, "things", main="before", change="now")
    (table,) = list(trade_off_tables([jobs, general], 200))
    cells = [list(column.cells) for column in table.columns]
    rows = {
        name: [column[place].split("\n")[0] for column in map(texts, cells[1:])]
        for place, name in enumerate(texts(cells[0]))
    }
    assert rows["accuracy, things"] == ["0.750", "0.650", ""]
    assert rows["accuracy@5, things"] == ["1.000", "0.900", ""]
    skews = {row.over: row.mean for row in jobs.probes[0].summaries if row.model == "change"}
    assert {name: row[1] for name, row in rows.items() if "MaxSkew" in name} == {
        f"MaxSkew@60 over {over}, jobs": f"{mean:.3f}" for over, mean in skews.items()
    }
    assert all(row.lo <= row.hi and "bootstrap of sets" in row.interval for row in jobs.probes[0].summaries)
    (drawn,) = [row for row in jobs.probes[0].summaries if (row.model, row.over) == ("change", "skin_tone × gender")]
    assert f"[{drawn.lo:.3f}, {drawn.hi:.3f}]" in cells[2][[*rows].index("MaxSkew@60 over skin_tone × gender, jobs")]
    assert not list(trade_off_tables([general], 200))
    assert not list(trade_off_tables([jobs], 200))
    page = collection_html(AuditCollection(audits=[jobs, general], command="fairgate audit jobs things"))
    assert page.count('aria-label="1: main, accuracy 0.750, MaxSkew') == len(skews)
    assert "\\label{tab:trade-off}" in render_latex(jobs, general)


def texts(cells: list[object]) -> list[str]:
    return [str(cell) for cell in cells]


def test_the_demonstration_has_classes_without_groups(tmp_path: Path) -> None:
    drawn = CliRunner().invoke(app, ["portraits", "classes", "--out", str(tmp_path / "classes"), "--images", "1"])
    assert drawn.exit_code == 0, drawn.output
    labels, images = str(tmp_path / "classes" / "labels.csv"), str(tmp_path / "classes")
    words = ["--labels", labels, "--images", images, "--subject-column", "label", "--root", str(tmp_path)]
    imported = CliRunner().invoke(app, ["dataset", "import", "classes", *words])
    assert imported.exit_code == 0, imported.output
    manifest = open_dataset("classes", tmp_path).manifest
    assert (len(manifest.subjects), manifest.n_rows, manifest.attributes) == (15, 15, {})
