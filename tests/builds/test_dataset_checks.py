"""Paper 5's checks of a dataset: drawn rooms whose plants and shelves give the gender away, until people are edited."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from fairgate.builds import dataset_checks
from fairgate.builds.dataset_checks import check_dataset
from fairgate.cli.dataset import lines
from fairgate.data import read_dataset, write_dataset
from fairgate.errors import DatasetError
from fairgate.metrics import recall_at_k
from fairgate.portraits.draw import draw, png
from fairgate.portraits.photos import draw_photo
from fairgate.portraits.scene import scene_of
from fairgate.steps.caption_gender import neutralise, with_gender
from fairgate.steps.person_photographs import BOX, pasted, whole_box


class ByColumns:
    """A matcher that sees a coarse picture, and reads 'man' or 'woman' in a text as a planted direction."""

    uri, fingerprint, spent = "coarse", "0" * 64, {}

    def embed_images(self, images):
        return np.array([self._seen(image) for image in images], dtype=np.float32)

    def _seen(self, image):
        pixels = np.asarray(image.resize((8, 8)), dtype=np.float64).ravel() / 255
        return np.concatenate([pixels, [pixels.mean()]]) / np.linalg.norm(pixels)

    def embed_texts(self, texts):
        return np.array([[0.0] * 192 + [1.0 if "woman" in text else -1.0] for text in texts], dtype=np.float32)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """What `gensynth` would make of the drawn rooms with an editor that never fails."""
    rows = []
    for number in range(220):
        photo = draw_photo(0, "doctor", number)
        if photo.kind != "one":
            continue
        left, top, width, height = photo.boxes[0]
        box = whole_box((left, top, left + width, top + height), *photo.image.size)
        for gender in ("male", "female"):
            person = draw(scene_of(5, "doctor", number), "doctor", photo.skin_tone, gender).reduce(3)
            put = [with_gender(caption, gender) for caption in photo.captions]
            rows.append(
                {
                    "image": png(pasted(photo.image, person, box)),
                    "set_id": f"{number:04d}",
                    "member": gender,
                    "subject": "doctor",
                    "gender": gender,
                    "original_gender": photo.gender,
                    "captions": json.dumps(put),
                    "neutral_captions": json.dumps([neutralise(caption) for caption in photo.captions]),
                    **dict(zip(BOX, box, strict=True)),
                }
            )
    folder = tmp_path_factory.mktemp("checks") / "dataset"
    about = {"recipe": {"name": "gensynth"}, "licence": "unknown", "counterfactual": True}
    attributes = {"gender": ["male", "female"]}
    write_dataset(folder, rows, name="gensynth", version="v1", attributes=attributes, **about)
    return read_dataset(folder)


def test_the_planted_background_is_found_in_pictures_and_in_neutral_captions(dataset):
    found = check_dataset(dataset, ByColumns(), n_clusters=3)
    assert found.photographs == dataset.manifest.n_sets
    assert 0.65 < found.background_auc < 0.9  # a plant beside 80% of women, a shelf beside 80% of men
    assert 0.65 < found.caption_auc < 0.9
    assert any("plant" in cluster.words and cluster.over_representation < -0.1 for cluster in found.clusters)
    assert any("shelf" in cluster.words and cluster.over_representation > 0.1 for cluster in found.clusters)
    assert sum(cluster.size for cluster in found.clusters) == found.photographs
    assert set(found.recall) == {1, 5, 10}
    assert found.zero_shot_accuracy["male"] + found.zero_shot_accuracy["female"] == pytest.approx(1.0)  # always "woman"


def test_a_model_without_bias_shows_skew_where_the_data_have_it(dataset):
    found = check_dataset(dataset, ByColumns(), n_clusters=3).controls
    for data in ("all", "balanced"):
        assert found[f"TF-IDF, {data}"]["MaxSkew@25"].mean > found[f"random, {data}"]["MaxSkew@25"].mean


def test_controls_of_balanced_data_are_averaged_over_five_draws_as_in_table_1(dataset):
    found = check_dataset(dataset, ByColumns(), n_clusters=3)
    for name, figures in found.controls.items():
        assert {"Bias@5", "Bias@10", "MaxSkew@25"} <= set(figures)
        if name.endswith("all"):
            assert {figure.deviation for figure in figures.values()} == {None}
        else:
            assert all(0 < figure.deviation < 0.2 for figure in figures.values())
    [shard] = dataset.manifest.shards
    originals = dataset.parquet(shard).read(columns=["original_gender"])["original_gender"].to_pylist()
    lean = 2 * originals.count("male") / len(originals) - 1
    assert found.controls["random, all"]["Bias@10"].mean == pytest.approx(lean, abs=0.1)  # of the data, not the model
    balanced = found.controls["random, balanced"]["Bias@10"]
    assert balanced.mean == pytest.approx(0.0, abs=0.1)
    assert any(f"Bias@10 {balanced.mean:.3f} ± {balanced.deviation:.3f}" in line for line in lines(found))


def test_only_a_row_of_each_photograph_is_embedded_with_its_person_blacked_out(dataset):
    matcher = ByColumns()
    asked = []
    matcher.embed_images = lambda images: asked.extend(images) or ByColumns.embed_images(matcher, images)
    found = check_dataset(dataset, matcher, n_clusters=3)
    assert len(asked) == dataset.manifest.n_rows + found.photographs


def test_recall_is_the_same_however_few_captions_are_scored_at_once(dataset, monkeypatch):
    whole = check_dataset(dataset, ByColumns(), n_clusters=3).recall
    seen = []
    monkeypatch.setattr(dataset_checks, "SCORES", 7 * dataset.manifest.n_rows)
    monkeypatch.setattr(
        dataset_checks, "recall_at_k", lambda scores, *which: seen.append(scores.shape) or recall_at_k(scores, *which)
    )
    assert check_dataset(dataset, ByColumns(), n_clusters=3).recall == pytest.approx(whole, abs=1e-12)
    assert max(captions for captions, _ in seen) == 7


def test_checks_give_the_same_figures_again(dataset):
    assert check_dataset(dataset, ByColumns(), seed=3) == check_dataset(dataset, ByColumns(), seed=3)


def test_other_datasets_are_refused(tmp_path):
    rows = [
        {"image": png(Image.new("RGB", (8, 8))), "set_id": "a", "member": gender, "subject": "b", "gender": gender}
        for gender in ("male", "female")
    ]
    about = {"recipe": {}, "licence": "unknown", "counterfactual": True}
    write_dataset(tmp_path / "x", rows, name="x", version="v1", attributes={"gender": ["male", "female"]}, **about)
    with pytest.raises(DatasetError, match="has no column 'original_gender'"):
        check_dataset(read_dataset(tmp_path / "x"), ByColumns())
