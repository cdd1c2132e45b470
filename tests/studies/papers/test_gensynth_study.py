"""Paper 5's study: drawn rooms whose plants and shelves give the gender away, until people are edited; and a model with
a planted leaning, next to rankers that have none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fairgate.builds.recipes.gensynth import INSTRUCTIONS
from fairgate.builds.steps.caption_gender import neutralise, with_gender
from fairgate.builds.steps.person_photographs import BOX, pasted, whole_box
from fairgate.data import Dataset, read_dataset, write_dataset
from fairgate.ground.errors import DatasetError, ModelError, SettingsError
from fairgate.interfaces.cli.main import app
from fairgate.models import FAMILIES, Request, open_scorer, register
from fairgate.models.checkpoints import Checkpoint, Device, Encoder
from fairgate.models.two_towers import TwoTowers
from fairgate.portraits.draw import draw, png
from fairgate.portraits.photos import draw_photo
from fairgate.portraits.scene import scene_of
from fairgate.records import Estimate, StudyRecord, StudyTable
from fairgate.studies.papers import StudyContents, StudyPlace, caption_search
from fairgate.studies.papers.caption_context import cluster_tables
from fairgate.studies.papers.caption_search import CaptionGallery, by_chance, by_words, recall, shown
from fairgate.studies.papers.captioned import Captioned, Pair, PersonInBlack, by_decile, tenth
from fairgate.studies.papers.contract import mean_estimate
from fairgate.studies.papers.gensynth import GenSynthStudy
from fairgate.studies.papers.gensynth_arms import COMPARED

PHOTOS = 110


@lru_cache
def person_of(number: int, skin_tone: str, gender: str) -> Image.Image:
    return draw(scene_of(5, "doctor", number), "doctor", skin_tone, gender).reduce(3)


room_of = lru_cache(partial(draw_photo, 0, "doctor"))


@lru_cache
def rows_of(release: str) -> list[dict[str, Any]]:
    """What the recipe of that name would make of the drawn rooms, with an editor that never fails."""
    rows = []
    for number in range(PHOTOS):
        photo = room_of(number)
        if photo.kind != "one":
            continue
        left, top, width, height = photo.boxes[0]
        box = whole_box((left, top, left + width, top + height), *photo.image.size)
        for gender in (photo.gender,) if release == "photographs" else ("male", "female"):
            person = person_of(number, photo.skin_tone, gender)
            image = photo.image if release == "photographs" else pasted(photo.image, person, box)
            put = [with_gender(caption, gender) for caption in photo.captions]
            rows.append(
                {
                    "image": png(image),
                    "set_id": f"{number:04d}",
                    "member": gender,
                    "subject": "doctor",
                    "gender": gender,
                    "captions": json.dumps(put),
                    "neutral_captions": json.dumps([neutralise(caption) for caption in photo.captions]),
                    **({"p_real": (number % 10) / 10} if release == "gensynth" else {}),
                    **dict(zip(BOX, box, strict=True)),
                }
            )
    return rows


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the three releases."""
    folder = tmp_path_factory.mktemp("study")
    for name in ("photographs", "genswap", "gensynth"):
        about: dict[str, Any] = {
            "recipe": {"name": name, "knobs": {"instructions": INSTRUCTIONS}},
            "licence": "unknown",
            "counterfactual": name != "photographs",
        }
        attributes = {"gender": ["male", "female"]}
        write_dataset(
            folder / "datasets" / name / "v1", rows_of(name), name=name, version="v1", attributes=attributes, **about
        )
    return folder


def released(root: Path, name: str) -> Dataset:
    return read_dataset(root / "datasets" / name / "v1")


@pytest.fixture(scope="module", autouse=True)
def world() -> Any:
    """`leaning:FAR`: sees a coarse picture, and reads a text as 'dark' (the bottom) or, by FAR, as a gender's place."""
    assert FAMILIES.own(), "a module that is imported registers its family once"
    known = dict(FAMILIES._found)

    @register
    class Leaning:
        scheme: ClassVar[str] = "leaning"
        forms: ClassVar[tuple[str, ...]] = ("leaning:FAR",)
        capabilities = TwoTowers.capabilities

        def local_path(self, _: str) -> Path | None:
            return None

        def open(self, request: Request) -> TwoTowers:
            identity = {"adapter": "leaning", "code": 1, "far": request.address}
            fingerprint = f"{abs(hash(request.address)):064x}"[-64:]
            return TwoTowers(Checkpoint(fingerprint, identity, loaded(float(request.address))), request)

    yield
    FAMILIES._found.clear()
    FAMILIES._found.update(known)


def seen(image: Image.Image) -> np.ndarray:
    """A coarse picture, and in the last two places where the person's hair is long or short."""
    return np.asarray(image.convert("RGB").resize((12, 8)), dtype=np.float32).ravel() / 255 - 0.5


def loaded(far: float) -> Any:
    def load(_: Device) -> Encoder:
        directions = _directions()

        def embedded(tokens: Mapping[str, Any]) -> np.ndarray:
            found = []
            for text in tokens["ids"]:
                rng = np.random.default_rng(sum(text.encode()))
                plain = rng.normal(0, 0.05, directions.shape)
                lean = -1.0 if "woman" in text or " she " in text else 1.0
                named = lean if "man" in text or "woman" in text else far
                found.append(plain + named * directions)
            return np.stack(found).astype(np.float32)

        return Encoder(
            scale=10.0,
            bias=0.0,
            vocabulary=3,
            prepare=seen,
            encode_images=lambda batch: np.stack(list(batch)),
            tokens=lambda prompts: {"ids": list(prompts)},
            encode_tokens=embedded,
        )

    return load


@lru_cache
def _directions() -> np.ndarray:
    """From drawn women to drawn men, in the coarse picture: what a model that sees the gender would have learned."""
    means = []
    for gender in ("male", "female"):
        drawn = []
        for number in range(500, 515):
            photo = draw_photo(0, "doctor", number)
            box = whole_box((8, 1, 40, 33), *photo.image.size)
            person = draw(scene_of(7, "doctor", number), "doctor", photo.skin_tone, gender).reduce(3)
            drawn.append(seen(pasted(photo.image, person, box)))
        means.append(np.mean(drawn, axis=0))
    far = means[0] - means[1]
    return np.asarray(far / np.linalg.norm(far))


def study(root: Path, **options: Any) -> StudyContents:
    given: dict[str, Any] = {
        "original": "photographs",
        "genswap": "genswap",
        "gensynth": "gensynth",
        "model": {"fair": "leaning:0", "leaning": "leaning:1"},
        "clusters": 3,
    }
    return GenSynthStudy(**{**given, **options}).run(StudyPlace(root, device="cpu"))


@pytest.fixture(scope="module")
def found(root: Path) -> StudyContents:
    return study(root)


def table(found: StudyContents, name: str) -> StudyTable:
    return next(one for one in found.tables if one.name == name)


def number(found: StudyContents, of: str, column: str, *row: str) -> float:
    """The number of a row that starts like this."""
    one = table(found, of)
    [cells] = [cells for cells in one.rows if cells[: len(row)] == list(row)]
    cell = cells[one.columns.index(column)]
    value = cell.value if isinstance(cell, Estimate) else cell
    assert isinstance(value, float)
    return value


def test_rankers_without_a_bias_show_skew_where_the_data_have_it_and_hardly_any_on_edited_pairs(
    found: StudyContents,
) -> None:
    for data in ("original", "original, balanced"):
        assert number(found, "max-skew", "MaxSkew@25", data, "TF-IDF") > 0.1
    assert number(found, "max-skew", "MaxSkew@25", "GenSynth", "TF-IDF") == pytest.approx(np.log(13 / 12.5))
    assert number(found, "max-skew", "MaxSkew@100", "GenSynth", "TF-IDF") == 0


def test_a_models_planted_leaning_is_left_once_the_datas_is_taken_away(found: StudyContents) -> None:
    one = table(found, "excess")
    rows = {(row[0], row[1]): row[one.columns.index("MaxSkew@25")] for row in one.rows if row[2] == "random"}
    leaning, fair = rows["GenSynth", "leaning"], rows["GenSynth", "fair"]
    assert isinstance(leaning, Estimate)
    assert isinstance(fair, Estimate)
    assert leaning.lo is not None
    assert leaning.lo > 0.3
    assert fair.value is not None
    assert fair.value < 0.5 * leaning.lo
    assert number(found, "bias", "Bias@10", "GenSynth", "leaning") > 0.8


def test_the_share_of_men_among_the_originals_is_the_bias_of_chance(root: Path, found: StudyContents) -> None:
    codes = Captioned("original", released(root, "photographs")).codes
    lean = 1 - 2 * float(codes.mean())
    assert number(found, "bias", "Bias@10", "original", "random") == pytest.approx(lean, abs=0.06)
    assert number(found, "bias", "Bias@10", "original, balanced", "random") == pytest.approx(0, abs=0.06)


def test_the_planted_background_is_found_in_originals_and_not_in_edited_pairs(found: StudyContents) -> None:
    for column in ("neutral captions", "the person in black"):
        assert 0.65 < number(found, "context", column, "original") < 0.95
        assert number(found, "context", column, "GenSynth") == pytest.approx(0.5, abs=0.02)
    assert number(found, "context", "pictures as they are", "GenSynth") > 0.8


def test_clusters_and_words_name_what_was_planted(found: StudyContents) -> None:
    words = {row[0]: row[2] for row in table(found, "words").rows}
    plant, shelf = words["plant"], words["shelf"]
    assert isinstance(plant, Estimate)
    assert isinstance(shelf, Estimate)
    assert None not in {plant.hi, shelf.lo}
    assert plant.hi < 0 < shelf.lo  # type: ignore[operator]
    sizes = [row[1] for row in table(found, "clusters").rows]
    assert table(found, "datasets").rows[0][2] == f"{sum(sizes)} x 1"  # type: ignore[arg-type]
    names = {one.name: one for one in found.figures}
    assert {"captions-map", "over-representation", "max-skew-25", "max-skew-100"} <= set(names)
    drawn = names["captions-map"]
    assert sum(len(one.x) for one in drawn.series) == sum(sizes)  # type: ignore[arg-type]
    by_name = {str(row[0]): row[2] for row in table(found, "clusters").rows}
    assert {one.name: one.shade for one in drawn.series} == by_name, "named and coloured as the table says"


def test_clusters_have_the_names_that_are_given_by_hand(root: Path, found: StudyContents) -> None:
    release = Captioned("original", released(root, "photographs"))
    ours, _ = cluster_tables(release, 3, 0, {"2": "kitchen"})
    names = [str(row[0]) for row in ours.rows]
    assert names[1] == "2 kitchen"
    assert names[0] == "1 " + ", ".join(str(ours.rows[0][3]).split(", ")[:2])
    with pytest.raises(SettingsError, match="'4' is no cluster"):
        study(root, clusters=3, cluster_name={"4": "kitchen"})


def test_a_cluster_is_listed_with_up_to_ten_words_as_in_the_papers_table_6(found: StudyContents) -> None:
    assert max(len(str(row[3]).split(", ")) for row in table(found, "clusters").rows) == 10


def test_pairs_are_counted_by_tenth_of_their_real_neighbours(found: StudyContents) -> None:
    counts = [row[1] for row in table(found, "real-neighbours").rows]
    assert table(found, "datasets").rows[0][2] == f"{sum(counts)} x 1"  # type: ignore[arg-type]
    assert all(isinstance(count, int) and count > 0 for count in counts)
    assert [tenth(one) for one in (0.0, 0.0999, 0.1, 0.7, 1.0)] == [0, 0, 1, 7, 9]
    assert {picture.name for picture, _ in found.sheets} == {"photographs", "tenths", "deciles"}


def test_pairs_of_one_photograph_are_resampled_together() -> None:
    of_photographs = np.random.default_rng(0).random(30)
    units = np.repeat(np.arange(30), 8)
    once = mean_estimate(of_photographs, np.random.default_rng(1))
    pairs = mean_estimate(of_photographs[units], np.random.default_rng(1), units=units)
    assert (pairs.n, pairs.value) == (once.n, pytest.approx(once.value))
    assert (pairs.lo, pairs.hi) == pytest.approx((once.lo, once.hi))
    assert mean_estimate(np.ones(9), np.random.default_rng(1)).lo is None


def test_whom_the_first_model_sees_in_pairs_of_real_neighbours_has_limits(found: StudyContents) -> None:
    cells = [row[2] for row in table(found, "neighbour-deciles").rows]
    assert all(isinstance(cell, Estimate) and cell.n for cell in cells)


def test_deciles_of_pairs_have_as_many_each_from_low_shares_to_high(found: StudyContents) -> None:
    rows = table(found, "neighbour-deciles").rows
    counts = [int(row[1]) for row in rows]  # type: ignore[arg-type]
    assert max(counts) - min(counts) <= 1
    spans = [list(map(float, str(row[0]).split(": ")[1].split(" to "))) for row in rows]
    assert [end for span in spans for end in span] == sorted(end for span in spans for end in span)
    assert sum(counts) == sum(int(row[1]) for row in table(found, "real-neighbours").rows)  # type: ignore[arg-type]
    few = by_decile([Pair((0, 1), 0.3)])
    assert [len(group) for group in few.values()] == [1] + [0] * 9


def test_words_captions_and_instructions_are_printed_as_in_the_papers_tables_4_5_and_7(found: StudyContents) -> None:
    words = table(found, "gendered-words").rows
    assert ["man", "woman", "person"] in words
    captions = table(found, "captions")
    assert captions.columns == ["original", "neutral", "captions"]
    assert all(neutralise(str(original)) == neutral for original, neutral, _ in captions.rows)
    assert any(original != neutral for original, neutral, _ in captions.rows)
    instructions = table(found, "instructions")
    assert instructions.columns == ["template", "female", "male"]
    assert instructions.rows == [
        ["Make this person more { }", "feminine", "masculine"],
        ["Make this person look like a { }", "woman", "man"],
        ["Turn this person into a { }", "woman", "man"],
        ["Convert this into a { }", "woman", "man"],
    ]


def test_models_are_next_to_each_other_on_the_data_of_tables_3_and_8(found: StudyContents) -> None:
    rows = table(found, "models").rows
    names = ["fair", "leaning"]
    assert [row[:2] for row in rows] == [[data, name] for data in COMPARED for name in names]
    assert all(row in table(found, "max-skew").rows for row in rows)


def test_recall_counts_distractors_that_are_nearer_and_leaves_out_its_own_photograph(root: Path) -> None:
    release, others = (Captioned(name, released(root, name)) for name in ("gensynth", "photographs"))
    here, there = (open_scorer("leaning:1", one.dataset, device="cpu") for one in (release, others))
    hits = recall(here, release, there, others)  # type: ignore[arg-type]
    row = 5
    by_hand = []
    for text in release.columns["captions"][row]:
        own = here.similarity([[text]])[row, 0]  # type: ignore[attr-defined]
        far = there.similarity([[text]])[:, 0]  # type: ignore[attr-defined]
        rank = 1 + int((far[others.set_id != release.set_id[row]] >= own).sum())
        by_hand.append([rank <= k for k in (1, 5, 10)])
    assert [hits[k][row] for k in (1, 5, 10)] == pytest.approx(np.mean(by_hand, axis=0).tolist())


def test_distractors_need_pictures_and_neither_captions_nor_people(
    root: Path, found: StudyContents, tmp_path: Path
) -> None:
    rows = [
        {"image": row["image"], "set_id": row["set_id"], "member": "a", "subject": "photograph", "split": "val"}
        for row in rows_of("photographs")
    ]
    about: dict[str, Any] = {"recipe": {}, "licence": "unknown", "counterfactual": False}
    write_dataset(tmp_path / "val", rows, name="val", version="v1", attributes={"split": ["val"]}, **about)
    plain = study(root, gallery=str(tmp_path / "val"), model={"fair": "leaning:0"})
    recalls = [[row[4:] for row in table(one, "datasets").rows if row[1] == "fair"] for one in (plain, found)]
    assert recalls[0] == recalls[1], "the same pictures are searched"
    assert not any("are the distractors" in note for note in plain.notes)


def test_figures_are_the_same_however_few_captions_are_scored_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Captioned("original", released(root, "photographs"))
    gallery = CaptionGallery.of(release, np.arange(len(release.dataset)), 0)
    whole = shown(
        lambda texts, _: np.array([[sum(map(ord, text)) * n % 97 for n in gallery.rows] for text in texts]), gallery
    )
    monkeypatch.setattr(caption_search, "SCORES", 7 * len(gallery.rows))
    parts = shown(
        lambda texts, _: np.array([[sum(map(ord, text)) * n % 97 for n in gallery.rows] for text in texts]), gallery
    )
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values)


def test_photographs_that_share_their_captions_are_no_more_evidence_than_the_captions(root: Path) -> None:
    release = Captioned("original", released(root, "photographs"))
    rows = np.arange(len(release.dataset))
    rng = np.random.default_rng(0)
    scores = {f"caption {number}": rng.random(len(rows)) for number in range(6)}

    def limits(photographs: int) -> tuple[int, float]:
        asked = tuple(f"caption {number % 6}" for number in range(photographs))
        gallery = CaptionGallery(release, rows, asked, np.arange(photographs))
        values = shown(lambda texts, _: np.array([scores[text] for text in texts]), gallery)["Bias@10"]
        mean = mean_estimate(values, np.random.default_rng(0))
        assert mean.value == pytest.approx(np.mean([shown_once[text] for text in asked]))
        assert mean.lo is not None
        assert mean.hi is not None
        return len(values), mean.hi - mean.lo

    once = CaptionGallery(release, rows, tuple(scores), np.arange(6))
    alone = shown(lambda texts, _: np.array([scores[text] for text in texts]), once)["Bias@10"]
    shown_once = dict(zip(scores, alone.tolist(), strict=True))
    assert len(set(shown_once.values())) > 1
    units, width = limits(600)
    assert units == 6
    assert width == pytest.approx(limits(6)[1])


def test_one_model_on_two_releases_has_one_network_and_embeds_each_text_once(root: Path) -> None:
    loads, asked = [], []

    def load(device: Device) -> Encoder:
        loads.append(device)
        encoder = loaded(0.0)(device)
        return replace(encoder, tokens=lambda texts: asked.extend(texts) or encoder.tokens(texts))

    def model(release: str, **other: object) -> TwoTowers:
        identity = {"adapter": "counted", "code": 1, **other}
        request = Request("counted:", "", released(root, release), device="cpu")
        return TwoTowers(Checkpoint("1" * 64, identity, load), request)

    first, second, third = model("photographs"), model("gensynth"), model("gensynth", another=1)
    alone = model("gensynth").similarity([["a man"], ["a woman"]])
    del loads[:], asked[:]
    second.share(first)
    third.share(first)
    first.similarity([["a man"]])
    assert second.similarity([["a man"], ["a woman"]]) == pytest.approx(alone)
    assert (len(loads), asked) == (1, ["a man", "a woman"])
    third.similarity([["a man"]])
    assert (len(loads), asked[2:]) == (2, ["a man"])


def test_controls_know_no_gender(root: Path) -> None:
    """Both edits of a photograph have the same neutral captions: to words they are one, in an order drawn anew."""
    release = Captioned("GenSynth", released(root, "gensynth"))
    gallery = CaptionGallery.of(release, np.arange(len(release.dataset)), 0)
    scores = by_words(gallery, 0)(gallery.queries[:4], 0)
    for photograph in range(3):
        pair = np.flatnonzero(release.owner[gallery.rows] == photograph)
        assert np.abs(np.diff(scores[:, pair], axis=1)).max() < 1e-8
    assert not np.array_equal(by_chance(gallery, 0)(["a"], 0), by_chance(gallery, 0)(["a"], 1))


def test_the_person_is_black_and_the_background_is_not(root: Path) -> None:
    release = Captioned("original", released(root, "photographs"))
    _, encoded = next(iter(PersonInBlack(release).image_batches(4)))
    from fairgate.data import decode

    pixels = np.asarray(decode(encoded[0]).convert("RGB"))
    left, top, right, bottom = release.box(0)
    assert not pixels[top:bottom, left:right].any()
    assert pixels[:, :left].any()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("neutral_captions", "not JSON", "no JSON list"),
        ("neutral_captions", "[" * 5000, "no JSON list"),
        ("captions", "[]", "no JSON list"),
        ("captions", json.dumps([""]), "no JSON list"),
        ("box_right", -4, "four whole numbers"),
        ("box_right", 0, "box is empty"),
        ("neutral_captions", None, "has no column 'neutral_captions'"),
    ],
)
def test_releases_that_hold_something_else_are_refused(
    root: Path, tmp_path: Path, column: str, value: Any, message: str
) -> None:
    rows = [
        {name: cell for name, cell in row.items() if value is not None or name != column}
        for row in rows_of("gensynth")[:30]
    ]
    if value is not None:
        for row in rows:
            row[column] = value
    about: dict[str, Any] = {"recipe": {"name": "gensynth"}, "licence": "unknown", "counterfactual": True}
    write_dataset(tmp_path / "x", rows, name="x", version="v1", attributes={"gender": ["male", "female"]}, **about)
    with pytest.raises(DatasetError, match=message) as caught:
        study(root, gensynth=str(tmp_path / "x"))
    assert caught.value.remedy


def test_a_model_that_cannot_compare_pictures_with_texts_is_refused_by_what_it_lacks(root: Path) -> None:
    @register
    class Labels:
        scheme: ClassVar[str] = "labelled"
        forms: ClassVar[tuple[str, ...]] = ("labelled:ANY",)
        capabilities: ClassVar[frozenset[Any]] = frozenset({"log_probabilities"})

        def local_path(self, _: str) -> Path | None:
            return None

        def open(self, request: Request) -> Any:
            return SimpleNamespace(uri=request.uri, capabilities=self.capabilities)

    with pytest.raises(ModelError, match="lacks the capability 'similarity'"):
        study(root, model={"labelled": "labelled:any"})


def test_a_third_gender_is_refused_by_the_name_of_each_with_the_metric_that_compares_all() -> None:
    facts = SimpleNamespace(attributes={"gender": ["man", "woman", "nonbinary"]}, ref="x@v1")
    release = Captioned("gensynth", cast("Dataset", SimpleNamespace(manifest=facts, folder=Path("x"))))
    with pytest.raises(DatasetError, match=r"3 groups of 'gender' \(man, woman, nonbinary\)") as caught:
        _ = release.groups
    assert "`metric: max_skew_at_k`" in str(caught.value.remedy)


def test_a_release_in_the_place_of_another_recipes_is_refused(root: Path) -> None:
    for place, recipe in {"original": "photographs", "genswap": "genswap", "unfiltered": "gensynth_unfiltered"}.items():
        with pytest.raises(DatasetError, match="is of recipe 'gensynth', and is given as") as caught:
            study(root, **{place: "gensynth"})
        assert caught.value.remedy == f"name a release or build of recipe '{recipe}' there"


def test_the_command_writes_the_page_and_names_what_is_named_twice(root: Path, tmp_path: Path) -> None:
    releases = ["--original", "photographs", "--genswap", "genswap", "--gensynth", "gensynth"]
    words = [*releases, "--clusters", "3", "--root", str(root), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["study", "gensynth", *words, "--model", "fair=leaning:0", "--utility", "genswap"])
    assert result.exit_code == 0, result.output
    record = StudyRecord.model_validate_json((tmp_path / "out/study.json").read_text(encoding="utf-8"))
    assert [model.name for model in record.models] == ["fair"]
    assert (tmp_path / "out/max-skew.csv").is_file()
    assert (tmp_path / "out/photographs.png").is_file()
    result = CliRunner().invoke(app, ["study", "gensynth", *words, "--model", "leaning:0", "--model", "leaning:0"])
    assert (result.exit_code, "NAME=URI" in " ".join(result.output.split())) == (4, True)
