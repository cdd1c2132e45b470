"""Detectors: boxes agree with the library's own pipeline, and what cannot be judged is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detector_world import KINDS, save_detector
from model_world import Pictures, encoded, picture
from nightly import some

from fairgate.ground.errors import ModelError
from fairgate.models import LOWEST_SCORE, Detections, EmbeddingCache, open_scorer, require_capability
from fairgate.models.checkpoints import READ_TEXTS

# A box is a chain of some 20 float32 products with sums of 16 to 64 terms, scaled to 60 pixels, and the weights are
# drawn wide: 20 * sqrt(64) * 2^-24 * 60 = 6e-4 pixels; scores are below 1.
PIXELS, SCORES = 1e-3, 1e-5
ALL = (*KINDS, "grounding-dino", "mm-grounding-dino")

Folders = Callable[[str], Path]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Each layout's folder, saved once."""
    home, made = tmp_path_factory.mktemp("detectors"), dict[str, Path]()

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = save_detector(kind, home / kind)
        return made[kind]

    return folder


@pytest.fixture
def photos() -> Pictures:
    """Of two sizes."""
    return Pictures([encoded(picture(row, (60, 50) if row % 2 else (50, 60))) for row in range(4)])


@pytest.fixture
def detr(folders: Folders, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(folders("detr"), tmp_path / "detr"))


def opened(folder: Path, photos: Pictures, cache: EmbeddingCache | None = None) -> Any:
    return open_scorer(f"detector:{folder}", photos, device="cpu", cache=cache)


def by_the_library(folder: Path, kind: str, row: int, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores and boxes of one picture by the library's automatic classes, sorted by score."""
    import torch
    import transformers as t

    image = picture(row, (60, 50) if row % 2 else (50, 60))
    size = [(image.height, image.width)]
    processor_class = t.AutoProcessor if kind in READ_TEXTS else t.AutoImageProcessor
    processor = processor_class.from_pretrained(folder)
    with torch.inference_mode():
        if kind not in READ_TEXTS:
            model = t.AutoModelForObjectDetection.from_pretrained(folder).eval()
            outputs = model(**processor(images=image, return_tensors="pt"))
            found = processor.post_process_object_detection(outputs, threshold=LOWEST_SCORE, target_sizes=size)[0]
            chosen = found["labels"] == {name: number for number, name in model.config.id2label.items()}[what]
            scores, boxes = found["scores"][chosen], found["boxes"][chosen]
        else:
            model = t.AutoModelForZeroShotObjectDetection.from_pretrained(folder).eval()
            text = f"{what}." if kind.endswith("grounding-dino") else [[what]]
            inputs = processor(text=text, images=image, return_tensors="pt")
            outputs = model(**inputs)
            ids = (inputs["input_ids"],) if kind.endswith("grounding-dino") else ()
            read = processor.post_process_grounded_object_detection
            found = read(outputs, *ids, threshold=LOWEST_SCORE, target_sizes=size)[0]
            scores, boxes = found["scores"], found["boxes"]
    order = np.argsort(-scores.numpy(), kind="stable")
    return scores.numpy()[order], boxes.numpy()[order]


@pytest.mark.parametrize("kind", some(ALL, 3))
def test_boxes_are_those_of_the_library(kind: str, folders: Folders, photos: Pictures) -> None:
    model, everything = opened(folders(kind), photos), []
    for what in ["person"] if kind in READ_TEXTS else ["N/A", "person", "car"]:
        found: Detections = model.detect(what)
        for row in range(len(photos)):
            scores, boxes = by_the_library(folders(kind), kind, row, what)
            here = found.row == row
            np.testing.assert_allclose(found.score[here], scores, rtol=0, atol=SCORES)
            np.testing.assert_allclose(found.corners[here], boxes, rtol=1e-5, atol=PIXELS)
            everything += [boxes]
    assert len(np.unique(np.concatenate(everything).round(1), axis=0)) >= len(photos), "of some boxes"


def test_of_a_release_that_shares_pictures_boxes_are_found_in_the_new_ones_alone(
    folders: Folders, photos: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairgate.models.detection import engine

    seen, boxes = list[int](), engine.DetectorEngine.boxes

    def counted(self: Any, pictures: Any, what: str) -> Any:
        seen.append(len(pictures))
        return boxes(self, pictures, what)

    monkeypatch.setattr(engine.DetectorEngine, "boxes", counted)
    cache, folder = EmbeddingCache(tmp_path), folders("detr")
    opened(folder, photos, cache).detect("person")
    more = Pictures([encoded(picture(9, (60, 50))), *photos.blobs])
    found = opened(folder, more, cache).detect("person")
    assert sum(seen) == len(photos) + 1
    again = opened(folder, Pictures(more.blobs[::-1]), cache)  # all are known
    again.detect("person")
    assert (sum(seen), again._network) == (len(photos) + 1, None)
    fresh = opened(folder, more).detect("person")
    assert np.array_equal(found.row, fresh.row)
    np.testing.assert_allclose(found.corners, fresh.corners, atol=PIXELS)
    opened(folder, photos, cache).detect("car")  # of another class nothing is known
    assert sum(seen) == 3 * len(photos) + 2


def test_boxes_are_computed_once_and_then_cached(folders: Folders, photos: Pictures, tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "cache")
    first = opened(folders("yolos"), photos, cache).detect("car")
    photos.handed_out = 0
    again = opened(folders("yolos"), photos, cache).detect("car")
    assert photos.handed_out == 0
    np.testing.assert_array_equal(again.corners, first.corners)
    np.testing.assert_array_equal(again.row, first.row)


def test_an_interrupted_run_goes_on_where_it_was(folders: Folders, tmp_path: Path) -> None:
    cache, seen = EmbeddingCache(tmp_path / "cache"), list[int]()
    photos = Pictures([encoded(picture(row, (40, 40))) for row in range(9)])

    def open_again(limit: int) -> Any:
        def progress(done: int, total: int) -> None:
            seen.append(done)
            if done == limit:
                raise KeyboardInterrupt

        return open_scorer(f"detector:{folders('yolos')}", photos, device="cpu", cache=cache, progress=progress)

    with pytest.raises(KeyboardInterrupt):
        open_again(8).detect("car")
    found = open_again(99).detect("car")
    assert seen == [0, 8, 8, 9]
    np.testing.assert_array_equal(found.row, opened(folders("yolos"), photos).detect("car").row)


def test_classes_under_other_names_are_another_reading(detr: Path, photos: Pictures) -> None:
    before = opened(detr, photos)
    cars = before.detect("car")
    written = json.loads((detr / "config.json").read_text())
    written["id2label"] = {"0": "N/A", "1": "car", "2": "person"}
    (detr / "config.json").write_text(json.dumps(written))
    after = opened(detr, photos)
    assert after.tokenizer != before.tokenizer  # without `reading_as`, comparisons with such a baseline never pass
    assert after.preprocessing == before.preprocessing
    assert not hasattr(after, "reading_as")
    np.testing.assert_array_equal(after.detect("person").corners, cars.corners)


def test_another_size_of_pictures_is_another_preprocessing(detr: Path, photos: Pictures) -> None:
    before = opened(detr, photos)
    change(detr / "preprocessor_config.json", size={"shortest_edge": 32, "longest_edge": 48})
    after = opened(detr, photos)
    assert (after.tokenizer == before.tokenizer, after.preprocessing == before.preprocessing) == (True, False)


def change(path: Path, **keys: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def named_by_timm(folder: Path) -> None:
    change(folder / "config.json", backbone="resnet50", use_timm_backbone=True, backbone_config=None)


def a_backbone_of_timm(folder: Path) -> None:
    change(folder / "config.json", backbone_config={"model_type": "timm_backbone", "out_indices": [4]})


def another_part(folder: Path) -> None:
    change(folder / "config.json", backbone_config={"model_type": "maskformer-swin"})


def two_persons(folder: Path) -> None:
    change(folder / "config.json", id2label={"0": "person", "1": "person", "2": "car"})


def no_person(folder: Path) -> None:
    change(folder / "config.json", id2label={"0": "persona", "1": "bus", "2": "car"})


def no_names(folder: Path) -> None:
    change(folder / "config.json", id2label=None)


def a_classifier(folder: Path) -> None:
    change(folder / "config.json", model_type="vit")


def enormous(folder: Path) -> None:
    change(folder / "preprocessor_config.json", size={"shortest_edge": 4000, "longest_edge": 8000})


def another_processor(folder: Path) -> None:
    change(folder / "preprocessor_config.json", image_processor_type="MadeUpImageProcessor")


def many_boxes(folder: Path) -> None:
    change(folder / "config.json", num_queries=10_000_000)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def diverged(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["class_labels_classifier.bias"] = torch.full_like(weights["class_labels_classifier.bias"], float("nan"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def infinite(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["class_labels_classifier.weight"] *= 0  # and two columns, whose sum is infinity of a sign, and no NaN
    weights["class_labels_classifier.weight"][:, :2] = torch.tensor([3e38, 3e38])
    weights["class_labels_classifier.bias"] = torch.full_like(weights["class_labels_classifier.bias"], -3e38)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


REFUSED = {
    named_by_timm: "use a model whose parts config.json describes",
    a_backbone_of_timm: "use a model whose parts config.json describes",
    another_part: "types it knows there: resnet",
    two_persons: "2 classes of the model are called 'person'",
    no_person: "did you mean 'persona'",
    no_names: "does not name the classes",
    a_classifier: "which the detector: adapter does not detect with",
    enormous: "make a picture of",
    another_processor: "some read files by name",
    many_boxes: "sets 'num_queries' to 10000000",
    pickled: "only pickled weights",
    diverged: "NaN",
    infinite: "NaN or infinity",
}


@pytest.mark.parametrize("spoil", REFUSED, ids=lambda spoil: spoil.__name__)
def test_folders_that_cannot_be_judged_are_refused(spoil: Callable[[Path], None], detr: Path, photos: Pictures) -> None:
    spoil(detr)
    with pytest.raises(ModelError) as refusal:
        opened(detr, photos).detect("person")
    assert REFUSED[spoil] in str(refusal.value)


def test_a_model_that_reads_texts_needs_its_tokenizer_and_few_words(
    folders: Folders, photos: Pictures, tmp_path: Path
) -> None:
    owl = Path(shutil.copytree(folders("owlv2"), tmp_path / "owl"))
    with pytest.raises(ModelError, match="longer than the 16 tokens"):
        opened(owl, photos).detect("a person " * 12)
    for name in ("tokenizer.json", "vocab.json"):
        (owl / name).unlink(missing_ok=True)
    with pytest.raises(ModelError, match="holds no tokenizer"):
        opened(owl, photos)


def test_a_detector_is_refused_where_another_capability_is_needed(folders: Folders, photos: Pictures) -> None:
    model = opened(folders("yolos"), photos)
    require_capability(model, "detect", "probe 'people'")
    with pytest.raises(Exception, match="lacks the capability 'similarity' \\(it has: detect\\)"):
        require_capability(model, "similarity", "probe 'search'")
