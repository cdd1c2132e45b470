"""Mitigations of two-tower models: each does what its paper's formula says, and takes out what was planted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hf_world import save_folder
from model_world import Pictures, encoded
from PIL import Image

from fairgate.formulas.metrics import max_skew_at_k
from fairgate.ground.errors import FairgateError, MetricError, ModelError
from fairgate.ground.randomness import stream
from fairgate.models import (
    FAMILIES,
    AttributeData,
    EmbeddingCache,
    Request,
    fit_clip_clip,
    fit_projection,
    local_paths,
    open_scorer,
    register,
    schemes,
)
from fairgate.models.checkpoints import Checkpoint, Device, Encoder
from fairgate.models.two_towers import TwoTowers, as_two_towers

PROMPTS = ["a photo of a doctor", "a photo of a nurse", "a chef"]
MAN, WOMAN = "a photo of a man", "a photo of a woman"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FAMILIES.own(), "a module that is imported registers its family once"
    monkeypatch.setattr(FAMILIES, "_found", dict(FAMILIES._found))


@pytest.fixture(params=["open_clip", "clip", "siglip"])
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A tiny checkpoint in each real format."""
    if request.param == "open_clip":
        return f"open_clip:local-dir:{request.getfixturevalue('local_dir')}"
    return f"hf:{save_folder(request.param, tmp_path / request.param)}"


def saved(folder: Path, mitigation: Any, origin: str) -> str:
    """The URI of a mitigated model."""
    file = folder / "mitigation.json"
    file.write_text(mitigation.model_dump_json())
    return f"debiased:{file}?model={origin}"


def clip_clip(model: Any, labels: Sequence[int], drop: int) -> Any:
    data = AttributeData(model, np.array(labels), "faces@v1", "other pictures")
    return fit_clip_clip(data, attribute="gender", drop=drop)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_clip_clip_is_the_cosine_of_the_dimensions_that_are_left(
    origin: str, pictures: Pictures, tmp_path: Path
) -> None:
    plain = open_scorer(origin, pictures, device="cpu")
    found = clip_clip(plain, [0, 1] * 5, 4)
    model = open_scorer(saved(tmp_path, found, origin), pictures, device="cpu")
    kept = [place for place in range(found.width) if place not in found.dimensions]
    assert len(kept) == found.width - 4
    images, texts = plain.image_embeddings()[:, kept], plain.text_embeddings(PROMPTS)[:, kept]
    expected = unit(images.astype(np.float64)) @ unit(texts.astype(np.float64)).T
    np.testing.assert_allclose(model.similarity([[one] for one in PROMPTS]), expected, atol=1e-5)
    logits = model.logits(PROMPTS) - model.logit_scale * expected
    np.testing.assert_allclose(logits, logits[0, 0], atol=1e-4 * model.logit_scale)


def test_a_projection_leaves_texts_nothing_of_its_prompts_and_images_as_they_are(
    origin: str, pictures: Pictures, tmp_path: Path
) -> None:
    plain = open_scorer(origin, pictures, device="cpu")
    mitigation = fit_projection(origin, [MAN, WOMAN], device="cpu")
    model = open_scorer(saved(tmp_path, mitigation, origin), pictures, device="cpu")
    named = plain.text_embeddings([MAN, WOMAN]).astype(np.float64)
    texts = model.text_embeddings(PROMPTS).astype(np.float64)
    assert np.abs(texts @ named.T).max() < 1e-5
    complement = np.eye(named.shape[1]) - named.T @ np.linalg.solve(named @ named.T, named)  # Chuang et al., section 3
    np.testing.assert_allclose(texts, unit(plain.text_embeddings(PROMPTS) @ complement), atol=1e-4)
    np.testing.assert_allclose(model.image_embeddings(), plain.image_embeddings(), atol=1e-6)


def test_a_prompt_that_a_projection_takes_out_whole_is_refused_by_name(
    local_dir: Path, pictures: Pictures, tmp_path: Path
) -> None:
    origin = f"open_clip:local-dir:{local_dir}"
    model = open_scorer(saved(tmp_path, fit_projection(origin, [MAN]), origin), pictures, device="cpu")
    with pytest.raises(ModelError, match="nothing is left") as caught:
        model.log_probabilities([MAN, WOMAN])
    assert MAN in str(caught.value)


def test_it_is_another_model_than_its_origin_and_reads_texts_and_pictures_as_it_does(
    local_dir: Path, pictures: Pictures, tmp_path: Path
) -> None:
    origin = f"open_clip:local-dir:{local_dir}"
    plain = open_scorer(origin, pictures, device="cpu")
    one, other = (clip_clip(plain, [0, 1] * 5, drop) for drop in (3, 4))
    models = [plain, *(open_scorer(saved(tmp_path, each, origin), pictures, device="cpu") for each in (one, other))]
    assert len({model.fingerprint for model in models}) == 3
    assert len({(model.tokenizer, model.preprocessing, model.precision) for model in models}) == 1
    assert local_paths(models[1].uri) == (tmp_path / "mitigation.json", local_dir)
    assert schemes(models[1].uri) == ["debiased", "open_clip"]


def test_a_mitigated_model_is_not_mitigated_again(local_dir: Path, pictures: Pictures, tmp_path: Path) -> None:
    origin = f"open_clip:local-dir:{local_dir}"
    once = saved(tmp_path, clip_clip(open_scorer(origin, pictures, device="cpu"), [0, 1] * 5, 3), origin)
    with pytest.raises(ModelError, match="mitigated already"):
        fit_projection(once, [MAN], device="cpu")
    with pytest.raises(ModelError, match="mitigated already"):
        open_scorer(f"debiased:{tmp_path / 'mitigation.json'}?model={once}", pictures, device="cpu")
    mitigated = open_scorer(once, pictures, device="cpu")
    mitigated.uri = f"peft:lora?base={once}"
    with pytest.raises(ModelError, match="mitigated already"):
        as_two_towers(mitigated, "here")


def test_what_the_file_says_of_its_making_makes_no_other_model(
    local_dir: Path, pictures: Pictures, tmp_path: Path
) -> None:
    origin = f"open_clip:local-dir:{local_dir}"
    found = clip_clip(open_scorer(origin, pictures, device="cpu"), [0, 1] * 5, 3)
    retold = found.model_copy(update={"release": "faces@v2", "fingerprint": "x"})
    one, other = (open_scorer(saved(tmp_path, each, origin), pictures, device="cpu") for each in (found, retold))
    assert one.fingerprint == other.fingerprint
    assert ("faces@v1" in one.note, "faces@v2" in other.note) == (True, True)


def test_a_projection_takes_its_origins_pictures_from_the_cache(
    local_dir: Path, pictures: Pictures, tmp_path: Path, cache: EmbeddingCache
) -> None:
    origin = f"open_clip:local-dir:{local_dir}"
    open_scorer(origin, pictures, device="cpu", cache=cache).image_embeddings()
    assert pictures.handed_out == 10
    uri = saved(tmp_path, fit_projection(origin, [MAN], device="cpu"), origin)
    model = open_scorer(uri, pictures, device="cpu", cache=cache)
    model.log_probabilities(PROMPTS)
    assert pictures.handed_out == 10
    other = open_scorer(f"hf:{save_folder('clip', tmp_path / 'clip')}", pictures, device="cpu", cache=cache)
    model.reading_as(other, tokenizer=False, preprocessing=True).log_probabilities(PROMPTS)
    assert pictures.handed_out > 10, "pictures that another one's preprocessing reads are others"


def test_of_three_groups_the_order_of_codes_does_not_choose_dimensions(world: str) -> None:
    pictures, _ = planted(1)
    model = open_scorer(world, pictures, device="cpu")
    groups = stream(3, "groups").integers(0, 3, len(pictures))
    found = [clip_clip(model, np.array(order)[groups].tolist(), 5).dimensions for order in ([0, 1, 2], [2, 0, 1])]
    assert found[0] == found[1]


# The planted world: an image is 16 numbers, of which the last two tell the gender and the others what it shows.
WIDTH, GENDER = 16, (14, 15)


def planted(seed: int, sets: int = 60) -> tuple[Pictures, np.ndarray]:
    """Pictures of 4 x 4 grey values, which are the embedding, and the gender of each."""
    noise = stream(seed, "pictures").normal(0, 20, (2 * sets, WIDTH))
    gender = np.arange(2 * sets) % 2
    noise[:, GENDER] = stream(seed, "gender").normal(0, 4, (2 * sets, 2)) + np.where(gender, 40, -40)[:, None]
    grey = np.clip(noise + 128, 0, 255).round().astype(np.uint8)
    return Pictures([encoded(Image.fromarray(one.reshape(4, 4), "L")) for one in grey]), gender


def texts() -> dict[str, np.ndarray]:
    """`boss` is said of what the first dimensions show, and leans to men; the names of genders are their dimensions."""
    boss, man = np.zeros(WIDTH), np.zeros(WIDTH)
    boss[:4], man[list(GENDER)] = 1.0, -1.0
    return {"a boss": boss + 0.6 * man, MAN: man, WOMAN: -man}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a model of the planted world."""

    @register
    class Planted:
        scheme: ClassVar[str] = "planted"
        forms: ClassVar[tuple[str, ...]] = ("planted:WORLD",)
        capabilities = TwoTowers.capabilities

        def local_path(self, _: str) -> Path | None:
            return None

        def open(self, request: Request) -> TwoTowers:
            return TwoTowers(Checkpoint("0" * 64, {"adapter": "planted", "code": 1}, load), request)

    def load(_: Device) -> Encoder:
        def embedded(tokens: Mapping[str, Any]) -> np.ndarray:
            return np.stack([texts()[prompt] for prompt in tokens["ids"]]).astype(np.float32)

        return Encoder(
            scale=10.0,
            bias=0.0,
            vocabulary=3,
            prepare=lambda image: np.asarray(image.convert("L"), dtype=np.float32).ravel() - 128,
            encode_images=lambda batch: np.stack(list(batch)),
            tokens=lambda prompts: {"ids": list(prompts)},
            encode_tokens=embedded,
        )

    return "planted:world"


def skew(model: Any, gender: np.ndarray) -> float:
    scores = model.similarity([["a boss"]]).T
    return float(max_skew_at_k(scores, gender, 30, groups=2)[0])


@pytest.mark.parametrize("method", ["clip_clip", "projection"])
def test_a_mitigation_takes_the_planted_gender_out_of_a_search(world: str, tmp_path: Path, method: str) -> None:
    """MaxSkew of 30 among 120 fair pictures is under 0.4 in 99 of 100 draws; of 30 men it is ln 2 = 0.69."""
    fitted_on, labels = planted(1)
    judged, gender = planted(2)
    plain = open_scorer(world, judged, device="cpu")
    assert skew(plain, gender) > 0.6
    if method == "clip_clip":
        mitigation = clip_clip(open_scorer(world, fitted_on, device="cpu"), labels.tolist(), 2)
        assert mitigation.dimensions == GENDER
    else:
        mitigation = fit_projection(world, [MAN, WOMAN], device="cpu")
    model = open_scorer(saved(tmp_path, mitigation, world), judged, device="cpu")
    assert skew(model, gender) < 0.4
    pixels = plain.image_embeddings()[:, :4].sum(axis=1)
    assert np.corrcoef(model.similarity([["a boss"]])[:, 0], pixels)[0, 1] > 0.8, "it still finds a boss"


def test_images_of_no_group_do_not_choose_dimensions(world: str) -> None:
    pictures, labels = planted(1)
    model = open_scorer(world, pictures, device="cpu")
    half = np.where(np.arange(len(labels)) < 60, labels, -1)
    alone = open_scorer(world, Pictures(pictures.blobs[:60]), device="cpu")
    assert clip_clip(model, half.tolist(), 5).dimensions == clip_clip(alone, labels[:60].tolist(), 5).dimensions


def test_what_was_fitted_on_a_release_is_not_judged_by_it(local_dir: Path, pictures: Pictures, tmp_path: Path) -> None:
    origin = f"open_clip:local-dir:{local_dir}"
    plain = open_scorer(origin, pictures, device="cpu")

    def fitted(fingerprint: str) -> Any:
        data = AttributeData(plain, np.array([0, 1] * 5), "faces@v1", fingerprint)
        return fit_clip_clip(data, attribute="gender", drop=4)

    same = fitted(pictures.fingerprint)
    with pytest.raises(ModelError, match="fitted on faces@v1"):
        open_scorer(saved(tmp_path, same, origin), pictures)
    named = fitted("an older version")
    pictures.name = "faces"
    with pytest.raises(ModelError, match="fitted on faces@v1"):
        open_scorer(saved(tmp_path, named, origin), pictures)


def test_a_mitigation_of_another_checkpoint_is_refused(local_dir: Path, pictures: Pictures, tmp_path: Path) -> None:
    other = f"hf:{save_folder('clip', tmp_path / 'clip')}"
    with pytest.raises(ModelError, match="was made for checkpoint"):
        open_scorer(saved(tmp_path, fit_projection(other, [MAN]), f"open_clip:local-dir:{local_dir}"), pictures)


def test_what_has_no_two_towers_cannot_be_mitigated(pictures: Pictures, tmp_path: Path) -> None:
    table = tmp_path / "scores.csv"
    rows = [f"{one},{other},0.1" for one, other in zip(pictures.index.set_id, pictures.index.member, strict=True)]
    table.write_text("\n".join(["set_id,member,a chef", *rows]))
    uri = f"scores:{table}?values=cosine"
    with pytest.raises(ModelError, match="without embeddings"):
        fit_projection(uri, [MAN])
    file = tmp_path / "any.json"
    file.write_text(json.dumps({"method": "projection", "origin": "0" * 64, "prompts": [MAN]}))
    with pytest.raises(ModelError, match="no embeddings"):
        open_scorer(f"debiased:{file}?model={uri}", pictures)


CLIPPED = {
    "method": "clip_clip", "origin": "0" * 64, "attribute": "gender", "release": "faces@v1", "fingerprint": "f",
    "dimensions": [1, 2], "width": 16,
}  # fmt: skip


PAIRED = {"method": "projection", "origin": "0" * 64, "prompts": [MAN], "pairs": [[MAN, WOMAN]], "strength": 1.0}
ARRAY = {
    "method": "prompt_array", "origin": "0" * 64, "attribute": "gender", "release": "faces@v1", "fingerprint": "f",
    "kept": "jobs@v1", "kept_fingerprint": "g", "prompts": ["a boss"], "array": [[0.5]],
}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not JSON",
        "[]",
        json.dumps({"method": "retraining"}),
        json.dumps({"method": "projection", "origin": "0" * 64, "prompts": []}),
        json.dumps({"method": "projection", "origin": "short", "prompts": [MAN]}),
        json.dumps({"method": "projection", "origin": "0" * 64, "prompts": [MAN], "more": 1}),
        json.dumps({**CLIPPED, "dimensions": [1, 1]}),
        json.dumps({**CLIPPED, "dimensions": [16]}),
        json.dumps({**CLIPPED, "dimensions": [-1]}),
        json.dumps({**CLIPPED, "dimensions": list(range(16))}),
        json.dumps({**CLIPPED, "dimensions": ["1"]}),
        json.dumps({**CLIPPED, "version": 2}),
        json.dumps({**CLIPPED, "width": 10**13}),
        json.dumps({"method": "projection", "origin": "0" * 64, "prompts": [MAN], "pairs": [[MAN, WOMAN]]}),
        json.dumps({"method": "projection", "origin": "0" * 64, "prompts": [MAN], "strength": 1.0}),
        json.dumps({**PAIRED, "pairs": [[MAN]]}),
        json.dumps({**PAIRED, "strength": 1e300}),
        json.dumps({**ARRAY, "array": []}),
        json.dumps({**ARRAY, "array": [[0.1], [0.1, 0.2]]}),
        json.dumps({**ARRAY, "array": [[float("nan")]]}),
        json.dumps({**ARRAY, "array": [[0.0] * 8193]}),
        json.dumps({**ARRAY, "array": [[0.0]] * 17}),
        json.dumps({"method": "projection", "origin": "0" * 64, "prompts": ["a"] * 1001}),
        " " * ((1 << 20) + 1),
    ],
    ids=range(25),
)
def test_a_file_that_is_no_mitigation_is_refused(
    local_dir: Path, pictures: Pictures, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "mitigation.json"
    file.write_text(content)
    with pytest.raises(ModelError) as caught:
        open_scorer(f"debiased:{file}?model=open_clip:local-dir:{local_dir}", pictures)
    assert (str(file) in str(caught.value), caught.value.remedy is not None) == (True, True)


@pytest.mark.parametrize("uri", ["debiased:x.json", "debiased:?model=hf:a", "debiased:a?b=c?model=hf:d"])
def test_an_address_that_lacks_a_part_says_how_it_is_written(uri: str, pictures: Pictures) -> None:
    with pytest.raises(ModelError) as caught:
        open_scorer(uri, pictures)
    assert "debiased:FILE?model=URI" in str(caught.value.remedy)


@pytest.mark.parametrize(("labels", "drop"), [([0, 1] * 5, 0), ([0, 1] * 5, 16), ([0] * 10, 4), ([-1] * 10, 4)])
def test_nothing_is_fitted_to_leave_out_all_none_or_without_two_groups(
    local_dir: Path, pictures: Pictures, labels: list[int], drop: int
) -> None:
    model = open_scorer(f"open_clip:local-dir:{local_dir}", pictures, device="cpu")
    with pytest.raises((ModelError, MetricError)):
        clip_clip(model, labels, drop)


def test_a_changed_width_is_named(local_dir: Path, pictures: Pictures, tmp_path: Path) -> None:
    origin = f"open_clip:local-dir:{local_dir}"
    plain = open_scorer(origin, pictures, device="cpu")
    wrong = clip_clip(plain, [0, 1] * 5, 4).model_copy(update={"width": 99})
    model = open_scorer(saved(tmp_path, wrong, origin), pictures, device="cpu")
    with pytest.raises(FairgateError, match="size of axis is 16"):
        model.image_embeddings()


@pytest.mark.parametrize(("prompts", "pairs"), [([MAN, f"{MAN} "], ()), ([MAN], [(WOMAN, f" {WOMAN}")])])
def test_texts_that_the_model_cannot_tell_apart_are_not_taken_out(
    local_dir: Path, prompts: list[str], pairs: list[tuple[str, str]]
) -> None:
    """A tokenizer strips spaces: these are two prompts of one text, as two unknown words are."""
    with pytest.raises(ModelError, match=r"the model reads the prompts .* as the same text"):
        fit_projection(f"open_clip:local-dir:{local_dir}", prompts, pairs=pairs, device="cpu")
