"""`social_counterfactuals`: attempts painted with shared attention, filtered by caption, the best of them chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diffusion_world import build
from in_memory_build import rows_of, run_part, run_recipe
from PIL import Image

from fairgate.builds.recipes import open_recipe
from fairgate.builds.steps import Meter, SetRows, run_steps
from fairgate.builds.steps.contract import SmallerBatches
from fairgate.builds.steps.filters import CaptionMatcher, EveryCaptionMatches, MembersDiffer, directional_similarity
from fairgate.builds.steps.pictures import picture
from fairgate.builds.steps.shared_generation import PaintSets, repaint_member
from fairgate.ground.errors import ModelError, RecipeError
from fairgate.ground.randomness import stream
from fairgate.models import generation
from fairgate.models.generation import registry

STEPS, ATTEMPTS, KEPT = 4, 8, 3
WORDS = {"age": {"person": "person", "face": "more face"}, "gender": {"m": "man", "f": "woman"}}


class Matcher:
    """Unit vectors; a picture's follows its mean colours, so that it says little of its caption."""

    uri, fingerprint = "fake:matcher", "0" * 64

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()

    def embed_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        self.spent["images"] += len(images)
        means = np.stack([np.asarray(image.resize((2, 1)), np.float64).ravel() for image in images])
        return unit(np.cos(means / 3))

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        self.spent["texts"] += len(texts)
        return unit(np.stack([stream(0, text).normal(size=6) for text in texts]))


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sd1")
    build("sd1").save_pretrained(folder)
    return folder


@pytest.fixture
def settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A small build of two prefixes: a Stable Diffusion of random weights, a matcher that nearly all pictures pass."""
    monkeypatch.setitem(registry.ADAPTERS, "fake.matcher", __name__)
    return {
        "painter": f"hf:{folder}",
        "matcher": "fake:matcher",
        "pair": ("age", "gender"),
        "attributes": WORDS,
        "subjects": ["doctor"],
        "prefixes": ["", "A photo of"],
        "steps": STEPS,
        "attempts": ATTEMPTS,
        "shard_sets": 3,
        "kept": KEPT,
        "min_caption_cosine": -0.6,
    }


def open_matcher(uri: str, address: str, *, device: str, base: Path) -> Matcher:
    return Matcher()


def test_the_published_settings_are_the_defaults() -> None:
    options: Any = open_recipe("social_counterfactuals", {}).settings
    assert (options.steps, options.attempts, options.kept, options.min_caption_cosine) == (100, 100, 10, 0.2)
    assert (options.shares, options.guidances, options.scheduler) == ((0.1, 0.9), (7.5, 15.0), "euler_ancestral")
    assert (options.sharing, options.prune_keep) == ("self", None)
    assert options.painter == "hf:stable-diffusion-v1-5/stable-diffusion-v1-5?vae=stabilityai/sd-vae-ft-mse"


def test_draws_of_an_attempt_are_its_own_and_lie_in_the_published_ranges() -> None:
    part = open_recipe("social_counterfactuals", {"subjects": ["chef"]}).parts()[0]
    sets = [rows for shard in part.shards("chef", None) for rows in shard]  # type: ignore[arg-type]
    assert len(sets) == len({rows.set_id for rows in sets}) == 400
    for name, low, high in (("share", 0.1, 0.9), ("guidance", 7.5, 15.0)):
        drawn = np.array([rows.columns[name] for rows in sets])
        assert low <= drawn.min()
        assert drawn.max() <= high
        assert abs(drawn.mean() - (low + high) / 2) < 0.05 * (high - low)
    other = open_recipe("social_counterfactuals", {"subjects": ["chef"], "shard_sets": 7}).parts()[0]
    again = [rows for shard in other.shards("chef", None) for rows in shard]  # type: ignore[arg-type]
    assert [(rows.set_id, rows.columns, rows.seed_of("noise")) for rows in again] == [
        (rows.set_id, rows.columns, rows.seed_of("noise")) for rows in sets
    ]


def test_the_best_attempts_at_each_set_of_captions_are_chosen(settings: dict[str, Any]) -> None:
    recipe = open_recipe("social_counterfactuals", settings)
    [finished] = run_recipe(recipe, "doctor")
    assert len(finished.traces) == 2 * ATTEMPTS
    for name in ("age_gender_doctor", "a_photo_of_age_gender_doctor"):
        kept = [trace for trace in finished.traces if trace.kept and trace.set_id.rpartition("-")[0] == name]
        best = sorted((trace.numbers["directional"] for trace in kept), reverse=True)[:KEPT]
        chosen = [set_id for set_id in finished.set_ids if set_id.rpartition("-")[0] == name]
        assert [finished.kept[set_id].columns["directional"] for set_id in chosen] == best
        assert len(chosen) == KEPT
    rows = rows_of(recipe, finished)
    assert [(row["member"], row["caption"]) for row in rows[:4]] == [
        ("person-m", "a person man doctor"),
        ("person-f", "a person woman doctor"),
        ("face-m", "a more face man doctor"),
        ("face-f", "a more face woman doctor"),
    ]
    assert (rows[2]["age"], rows[2]["gender"], rows[2]["recipe"]) == ("face", "m", "social_counterfactuals")
    assert all(row["clip_caption"] >= row["clip_caption_least"] >= -0.6 for row in rows)
    assert len({row["seed"] for row in rows}) == 2 * KEPT
    evaluations = 2 * ATTEMPTS * 4 * STEPS * 2
    assert finished.meter.counts["unet"] == evaluations


@pytest.mark.parametrize("sharing", ["self", "cross"])
def test_any_member_can_be_made_again_alone(settings: dict[str, Any], sharing: str) -> None:
    recipe = open_recipe("social_counterfactuals", {**settings, "sharing": sharing, "attempts": 1})
    [finished] = run_recipe(recipe, "doctor", most_shards=1)
    painter = generation.open_model("painter", settings["painter"])
    for row in rows_of(recipe, finished):
        again = repaint_member(row, painter, phrases=("more face",))
        assert np.abs(np.asarray(again, int) - np.asarray(picture(row["image"]), int)).max() <= 1


@pytest.mark.parametrize(("least", "enough"), [(-0.6, True), (0.1, False)])
def test_pruning_keeps_as_many_sets_for_less(settings: dict[str, Any], least: float, enough: bool) -> None:
    settings = {**settings, "prefixes": [""], "min_caption_cosine": least}
    [whole] = run_recipe(open_recipe("social_counterfactuals", settings), "doctor")
    [pruned] = run_recipe(open_recipe("social_counterfactuals", {**settings, "prune_keep": 0.25}), "doctor")
    assert len(pruned.set_ids) == len(whole.set_ids)
    for set_id in pruned.set_ids:
        ours, theirs = (done.kept[set_id].columns["directional"] for done in (pruned, whole))
        assert ours == pytest.approx(theirs, abs=1e-3)
    assert (len(whole.set_ids) == KEPT) is enough
    if enough:
        assert pruned.meter.counts["unet"] < whole.meter.counts["unet"]
        drops = [trace.drop.reason for trace in pruned.traces if trace.drop]
        assert "pruned" in drops
    else:  # too few match: all attempts had to go on
        assert pruned.meter.counts["unet"] == whole.meter.counts["unet"]


def test_what_pruning_spends_on_its_matcher_is_metered_and_no_picture_is_embedded_twice(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = Matcher()
    monkeypatch.setattr(f"{__name__}.Matcher", lambda: matcher)
    [part] = open_recipe("social_counterfactuals", {**settings, "prune_keep": 0.25}).parts()
    meter, sets = Meter(), next(iter(part.shards("doctor", None)))  # type: ignore[arg-type]
    traces = run_steps(part.steps("doctor", "cpu", None), sets, meter)
    finished = [rows for rows in sets if rows.drop is None or rows.drop.reason != "pruned"]
    assert 0 < len(finished) < len(traces) == ATTEMPTS
    assert matcher.spent == {"texts": 4, "images": 4 * (ATTEMPTS + len(finished))}
    assert {what: meter.counts[what] for what in matcher.spent} == matcher.spent
    for rows in finished:
        images, captions = [picture(image) for image in rows.column("image")], rows.column("caption")
        assert tuple(rows.column("clip_caption")) == CaptionMatcher(matcher).match(images, captions).cosines


def test_pruning_sees_all_attempts_at_a_set_and_depends_on_how_many_are_wanted(settings: dict[str, Any]) -> None:
    plain, pruned = (
        open_recipe("social_counterfactuals", {**settings, **more}).parts()[0] for more in ({}, {"prune_keep": 0.25})
    )
    assert [len(shard) for shard in plain.shards("doctor", None)] == [3, 3, 2] * 2  # type: ignore[arg-type]
    assert [len(shard) for shard in pruned.shards("doctor", None)] == [ATTEMPTS] * 2  # type: ignore[arg-type]
    assert (plain.ignores, pruned.ignores) == (("kept",), ())


def test_shards_of_any_size_hold_the_same_pictures(settings: dict[str, Any]) -> None:
    small, large = (
        run_part(open_recipe("social_counterfactuals", {**settings, "attempts": 4, **more}).parts()[0], "doctor", None)
        for more in ({"shard_sets": 1, "rows": 8}, {"shard_sets": 4, "rows": 64})
    )
    assert small.kept.keys() == large.kept.keys()
    for set_id, rows in small.kept.items():
        for one, other in zip(rows.column("image"), large.kept[set_id].column("image"), strict=True):
            assert np.abs(np.asarray(picture(one), int) - np.asarray(picture(other), int)).max() <= 1


def test_a_shard_of_sets_starts_at_the_rows_that_fitted_the_one_before(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    recipe = open_recipe("social_counterfactuals", {**settings, "attempts": 2, "shard_sets": 1, "prefixes": [""]})
    [part] = recipe.parts()
    paint = part.steps("doctor", "cpu", None)[0]
    assert isinstance(paint, PaintSets)
    sizes, predict = [], paint.painter.model.predict

    def with_room_for_four(latents: Any, *others: Any) -> Any:
        sizes.append(len(latents))
        if len(latents) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return predict(latents, *others)

    monkeypatch.setattr(paint.painter.model, "predict", with_room_for_four)
    first, second = part.shards("doctor", None)  # type: ignore[arg-type]
    meter = Meter()
    with pytest.warns(SmallerBatches) as said:
        paint.make(first, meter)
    assert str(said[0].message) == "out of memory with a batch of 48 UNet rows: going on with 24"
    halved = meter.counts["halved_batches"]
    assert len(said) == halved == 4  # 24, 12, 6, 3
    assert max(sizes) == 8
    sizes.clear()
    paint.make(second, meter)
    assert max(sizes) <= 4
    assert meter.counts["halved_batches"] == halved


def test_the_worst_member_is_named_where_a_caption_does_not_match() -> None:
    rows = SetRows("s", "chef", ("s",), rows=[{"member": m, "clip_caption": c} for m, c in (("a", 0.3), ("b", 0.1))])
    drop = EveryCaptionMatches(0.2).judge(rows)
    assert drop is not None
    assert (drop.reason, drop.measured, drop.limit, drop.member) == ("caption_mismatch", 0.1, 0.2, "b")
    assert EveryCaptionMatches(0.1).judge(rows) is None


def test_all_members_whose_captions_do_not_match_are_named_the_worst_one_first() -> None:
    cosines = {"a": 0.1, "b": 0.3, "c": 0.05, "d": float("nan")}
    rows = SetRows("s", "chef", ("s",), rows=[{"member": m, "clip_caption": c} for m, c in cosines.items()])
    drop = EveryCaptionMatches(0.2).judge(rows)
    assert drop is not None
    assert (drop.member, drop.also) == ("c", ("a", "d"))
    rows.rows = [{"member": "b", "clip_caption": 0.3}, {"member": "d", "clip_caption": float("nan")}]
    drop = EveryCaptionMatches(0.2).judge(rows)
    assert drop is not None
    assert drop.member == "d"


def test_members_that_are_one_picture_are_no_counterfactual() -> None:
    red, blue = Image.new("RGB", (4, 4), "red"), Image.new("RGB", (4, 4), "blue")
    rows = SetRows("s", "chef", ("s",), rows=[{"member": str(n), "image": i} for n, i in enumerate((red, blue, red))])
    drop = MembersDiffer().judge(rows)
    assert drop is not None
    assert (drop.reason, drop.member) == ("same_picture", "2")


def test_directional_similarity_by_hand() -> None:
    texts = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    along, against = texts, np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    assert directional_similarity(along, texts) == pytest.approx(1.0)
    # the second picture moves against its caption, the third not at all
    assert directional_similarity(against, texts) == pytest.approx((-1.0 + 0.0) / 2)
    assert np.isnan(directional_similarity(texts[:1], texts[:1]))


def test_each_caption_is_embedded_once() -> None:
    matcher = Matcher()
    matching = CaptionMatcher(matcher)
    for _ in range(3):
        matching.match([Image.new("RGB", (4, 4))] * 2, ["a", "b"])
    assert matcher.spent == {"texts": 2, "images": 6}


def test_a_painter_without_a_unet_is_refused() -> None:
    class Painter:
        uri = "other:painter"

        def __init__(self) -> None:
            self.spent: Counter[str] = Counter()

    rows = SetRows("s", "chef", ("s",), rows=[{"member": "a", "caption": "a chef"}])
    rows.columns.update(share=0.5, guidance=7.5)
    with pytest.raises(ModelError, match="no UNet"):
        PaintSets(Painter(), generation.Sampling(2, 7.5)).make([rows], Meter())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"pair": ("race", "age")}, "names two of"),
        ({"pair": ("race", "race")}, "names two of"),
        ({"template": "{subject}"}, "once each"),
        ({"template": "{subject} {groups} {prefix}"}, "once each"),
        ({"shares": (0.9, 0.1)}, "smaller"),
        ({"subjects": ["Baker", "baker"]}, "two of `subjects` differ in case or spaces"),
        ({"prefixes": ["A photo of", "a photo of"]}, "two of `prefixes` differ in case or spaces"),
        ({"attributes": {"race": {"a": "a"}, "gender": {"b": "b", "c": "c"}}}, "fewer than two"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        open_recipe("social_counterfactuals", wrong)
