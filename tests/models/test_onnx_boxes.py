"""Boxes of detectors in ONNX are those of the library that the declared layout is named after."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from model_world import Pictures
from PIL import Image

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx_world import boxes_model, save_onnx

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer

pytestmark = pytest.mark.usefixtures("sessions_here")
CLASSES = ["person", "car"]
SHOWN = "size=64&scale=1/255"
QUERIES = 6


def tables(none: bool) -> dict[str, np.ndarray]:
    """Logits of classes, with one for nothing, and boxes by centre and sides, relative to the picture."""
    draws = np.random.default_rng(5)
    logits = draws.normal(0, 2, (QUERIES, len(CLASSES) + none))
    return {"logits": logits, "pred_boxes": draws.uniform(0.2, 0.6, (QUERIES, 4))}


def opened(uri: str, pictures: Pictures, base: Path) -> Any:
    return open_scorer(uri, pictures, device="cpu", base=base)


def images(pictures: Pictures) -> list[Image.Image]:
    return [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]


def moved(picture: Image.Image) -> float:
    """What the tiny detector adds to all of its numbers."""
    resized = picture.resize((64, 64), Image.Resampling.BILINEAR)
    return float((np.asarray(resized, np.float64) / 255).mean()) * 1e-3


@pytest.mark.parametrize(("layout", "processor"), [("detr", "DetrImageProcessor"), ("rt_detr", "RTDetrImageProcessor")])
@pytest.mark.parametrize("what", CLASSES)
def test_boxes_of_a_detr_are_those_of_transformers(
    layout: str, processor: str, what: str, tmp_path: Path, pictures: Pictures
) -> None:
    import transformers

    told = tables(layout == "detr")
    save_onnx(tmp_path / "m.onnx", boxes_model(told), CLASSES)
    found = opened(f"onnx:m.onnx?labels=labels.txt&boxes={layout}&{SHOWN}", pictures, tmp_path).detect(what)
    for row, picture in enumerate(images(pictures)):
        outputs = SimpleNamespace(
            **{name: torch.as_tensor(table + moved(picture))[None].float() for name, table in told.items()}
        )
        size = [(picture.height, picture.width)]
        reader = getattr(transformers, processor)()
        (read,) = reader.post_process_object_detection(outputs, threshold=0.01, target_sizes=size)
        mine = read["labels"] == CLASSES.index(what)
        order = np.argsort(-read["scores"][mine].numpy(), kind="stable")
        np.testing.assert_allclose(found.score[found.row == row], read["scores"][mine].numpy()[order], atol=1e-5)
        np.testing.assert_allclose(found.corners[found.row == row], read["boxes"][mine].numpy()[order], atol=1e-3)
    assert len(found.row) > 0


def yolo() -> dict[str, np.ndarray]:
    """Four boxes by centre and sides in prepared pixels: two persons that overlap, a third one, and a car."""
    boxes = np.array([[20, 20, 10, 10], [21, 20, 10, 10], [50, 40, 8, 16], [20, 20, 10, 10]], dtype=np.float64)
    classes = np.array([[0.9, 0.1], [0.8, 0.1], [0.7, 0.2], [0.1, 0.6]])
    return {"output0": np.concatenate([boxes, classes], axis=1).T}


@pytest.mark.parametrize("turned", [False, True])
def test_boxes_of_a_yolo_are_placed_on_the_picture_that_was_filled_up(
    turned: bool, tmp_path: Path, pictures: Pictures
) -> None:
    told = {name: table.T if turned else table for name, table in yolo().items()}
    save_onnx(tmp_path / "m.onnx", boxes_model(told), CLASSES)
    uri = f"onnx:m.onnx?labels=labels.txt&boxes=yolo&{SHOWN}&pad=114"
    found = opened(uri, pictures, tmp_path).detect("person")
    picture = images(pictures)[0]  # 40 x 36: scaled by 1.6 to 64 x 58, with 3 lines above
    assert picture.size == (40, 36)
    first = found.row == 0
    np.testing.assert_allclose(found.score[first], [0.9, 0.7], atol=2e-3)  # one of the two that overlap went
    expected = [[15 / 1.6, (15 - 3) / 1.6, 25 / 1.6, (25 - 3) / 1.6], [46 / 1.6, (32 - 3) / 1.6, 54 / 1.6, 45 / 1.6]]
    np.testing.assert_allclose(found.corners[first], expected, atol=5e-3)
    assert len(opened(f"{uri}&overlap=0.99", pictures, tmp_path).detect("person").score) > len(found.score)
    (car,) = opened(uri, pictures, tmp_path).detect("car").corners[:1]
    np.testing.assert_allclose(car, expected[0], atol=5e-3)


def test_a_picture_that_is_filled_up_keeps_its_shape(tmp_path: Path, pictures: Pictures) -> None:
    from fairgate.models.onnx.pictures import PicturePreparation

    prepare = PicturePreparation.of({"size": "64", "scale": "1", "pad": "114"}, "uri")
    made = prepare(Image.new("RGB", (32, 16), (255, 0, 0)))
    assert made.shape == (3, 64, 64)
    assert (made[:, :16] == 114).all()
    assert (made[0, 16:48] == 255).all()
    assert (made[:, 48:] == 114).all()


def test_renamed_classes_and_other_layouts_are_other_models(tmp_path: Path, pictures: Pictures) -> None:
    save_onnx(tmp_path / "m.onnx", boxes_model(tables(False)), CLASSES)
    (tmp_path / "names.txt").write_text("car\nperson", encoding="utf-8")
    uri = f"onnx:m.onnx?labels=labels.txt&boxes=rt_detr&{SHOWN}"
    uris = [uri, uri.replace("labels.txt", "names.txt"), uri.replace("rt_detr", "detr"), f"{uri}&pad=0"]
    models = [opened(each, pictures, tmp_path) for each in uris]
    assert len({model.fingerprint for model in models}) == len(uris)
    assert [model.tokenizer == models[0].tokenizer for model in models] == [True, False, True, True]
    assert [model.preprocessing == models[0].preprocessing for model in models] == [True, True, True, False]


REFUSED = {
    "another layout": (f"boxes=yolo&{SHOWN}", "not those of boxes=yolo", "&output=NAME"),
    "classes that are not there": (f"boxes=detr&{SHOWN}", "1 classes and 4 numbers a box", "name all classes"),
    "no such layout": (f"boxes=ssd&{SHOWN}", "'boxes' is 'ssd'", "one of: detr"),
    "a processor": ("boxes=rt_detr&processor=p", "so that boxes can be placed", "&size=640"),
    "a crop": (f"boxes=rt_detr&{SHOWN}&crop=32", "crop= is no option of a detector", "leave it out"),
    "scores": (f"boxes=rt_detr&{SHOWN}&scores=sigmoid", "scores= is no option of a detector", "leave it out"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_is_open_or_does_not_fit_is_refused(case: str, tmp_path: Path, pictures: Pictures) -> None:
    query, problem, remedy = REFUSED[case]
    (tmp_path / "p").mkdir()
    save_onnx(tmp_path / "m.onnx", boxes_model(tables(False)), CLASSES)
    with pytest.raises(ModelError, match=problem) as caught:
        opened(f"onnx:m.onnx?labels=labels.txt&{query}", pictures, tmp_path).detect("person")
    assert remedy in str(caught.value.remedy)
    with pytest.raises(ModelError, match="no class of the model is called 'persn'"):
        opened(f"onnx:m.onnx?labels=labels.txt&boxes=rt_detr&{SHOWN}", pictures, tmp_path).detect("persn")


def test_nan_is_an_error_and_not_nothing_found(tmp_path: Path, pictures: Pictures) -> None:
    told = tables(False) | {"logits": np.full((QUERIES, 2), np.nan)}
    save_onnx(tmp_path / "m.onnx", boxes_model(told), CLASSES)
    with pytest.raises(ModelError, match="NaN"):
        opened(f"onnx:m.onnx?labels=labels.txt&boxes=rt_detr&{SHOWN}", pictures, tmp_path).detect("car")
