"""Boxes are the library's own, above the thresholds, highest score first, inside the picture."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from perceiver_world import PHOTOS, edit, portrait
from PIL import Image
from safetensors.torch import load_file, save_file

from fairgate.ground.errors import ModelError
from fairgate.models.generation import Box, open_model

ALL = {"box_threshold": 0.0, "text_threshold": 0.0}


@pytest.fixture
def folder(perceivers: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(perceivers["grounding_dino"], tmp_path / "dino"))


def stock(folder: Path, image: Image.Image, **thresholds: float) -> dict[str, Any]:
    from transformers import GroundingDinoForObjectDetection, GroundingDinoProcessor

    processor = GroundingDinoProcessor.from_pretrained(folder)
    inputs = processor(images=image, text="person.", return_tensors="pt")
    with torch.no_grad():
        outputs = GroundingDinoForObjectDetection.from_pretrained(folder).eval()(**inputs)
    size = [image.size[::-1]]
    (found,) = processor.post_process_grounded_object_detection(
        outputs, inputs["input_ids"], **thresholds, target_sizes=size
    )
    return {name: found[name] for name in ("boxes", "scores", "text_labels")}


def overlap(one: Any, other: Any) -> float:
    """Intersection over union of two boxes."""
    width, height = (min(one[at + 2], other[at + 2]) - max(one[at], other[at]) for at in (0, 1))
    inside = max(0.0, width) * max(0.0, height)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return float(inside / (areas - inside))


def one_of_each(found: dict[str, Any], most: float = 0.8) -> list[int]:
    """Places of the boxes, highest score first, without those that lie on a better one."""
    boxes, kept = found["boxes"].tolist(), list[int]()
    for place in torch.argsort(found["scores"], descending=True, stable=True).tolist():
        if all(overlap(boxes[place], boxes[other]) <= most for other in kept):
            kept.append(place)
    return kept


def corners(boxes: list[Box]) -> list[list[float]]:
    return [[box.left, box.top, box.right, box.bottom] for box in boxes]


def test_boxes_are_the_librarys_for_pictures_of_any_size(perceivers: dict[str, Path]) -> None:
    images = [portrait(1), portrait(2, (50, 90)), portrait(3)]
    detector = open_model("detector", f"hf:{perceivers['grounding_dino']}")
    found = detector.detect(images, " Person", **ALL)
    for image, boxes in zip(images, found, strict=True):
        expected = stock(perceivers["grounding_dino"], image, threshold=0.0, text_threshold=0.0)
        order = one_of_each(expected)
        np.testing.assert_allclose(corners(boxes), expected["boxes"][order], atol=1e-3)
        np.testing.assert_allclose([box.score for box in boxes], expected["scores"][order], atol=1e-5)
        assert [box.label for box in boxes] == [expected["text_labels"][place] for place in order]
    assert dict(detector.spent) == {"grounding_dino": 3}


def test_two_boxes_of_one_person_are_one_and_of_two_persons_two(
    perceivers: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such boxes made a picture of one person one of several, which `occupations` drops."""
    detector: Any = open_model("detector", f"hf:{perceivers['grounding_dino']}")
    boxes = [[10.0, 10.0, 60.0, 70.0], [11.0, 10.0, 61.0, 71.0], [10.0, 10.0, 60.0, 40.0]]
    result = {"scores": torch.tensor([0.4, 0.9, 0.5]), "boxes": torch.tensor(boxes), "text_labels": ["a", "b", "a"]}
    monkeypatch.setattr(
        type(detector.engine.grounded), "post_process_grounded_object_detection", lambda *_, **__: [result]
    )
    (found,) = detector.detect([portrait(1)], "person", **ALL)
    assert corners(found) == [boxes[1], boxes[2]], "the lower half of a person is not that person's box again"
    assert [box.score for box in found] == pytest.approx([0.9, 0.5])
    (apart,) = detector.detect([portrait(1)], "person. dress", **ALL)
    assert corners(apart) == [boxes[1], boxes[2], boxes[0]], "labels of a text that names two things are kept apart"


@pytest.mark.skipif(not PHOTOS.is_dir(), reason="the photographs are not here")
def test_photographs_are_prepared_as_the_library_does(perceivers: dict[str, Path]) -> None:
    image = Image.open(PHOTOS / "1005.jpg").convert("RGB")
    (found,) = open_model("detector", f"hf:{perceivers['grounding_dino']}").detect([image], "person", **ALL)
    expected = stock(perceivers["grounding_dino"], image, threshold=0.0, text_threshold=0.0)
    scores = expected["scores"][one_of_each(expected)].tolist()
    np.testing.assert_allclose([box.score for box in found], scores, atol=1e-5)


def test_the_text_is_lower_case_and_ends_with_a_dot(perceivers: dict[str, Path]) -> None:
    detector = open_model("detector", f"hf:{perceivers['grounding_dino']}")
    plain, loud, dotted = (detector.detect([portrait(1)], text, **ALL) for text in ("person", " PERSON ", "Person."))
    assert plain == loud == dotted
    assert plain != detector.detect([portrait(1)], "a chef", **ALL)
    for text in ("", " . "):
        with pytest.raises(ModelError, match="the text is empty"):
            detector.detect([portrait(1)], text, **ALL)
    with pytest.raises(ModelError, match="longer than the 64 tokens"):
        detector.detect([portrait(1)], "person " * 70, **ALL)


def test_only_boxes_above_the_threshold_are_kept_highest_first(perceivers: dict[str, Path]) -> None:
    detector = open_model("detector", f"hf:{perceivers['grounding_dino']}")
    (every,) = detector.detect([portrait(1)], "person", **ALL)
    scores = [box.score for box in every]
    assert len(every) == 9
    assert scores == sorted(scores, reverse=True)
    for kept in (0, 1, 4):
        between = 0.9999999 if kept == 0 else (scores[kept - 1] + scores[kept]) / 2
        (found,) = detector.detect([portrait(1)], "person", box_threshold=between, text_threshold=0.0)
        assert found == every[:kept]
    (unnamed,) = detector.detect([portrait(1)], "person", box_threshold=0.0, text_threshold=1.0)
    assert {box.label for box in unnamed} == {""}


def test_boxes_that_reach_over_the_edge_are_clipped_to_the_picture(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    for name in [name for name in weights if "bbox_embed" in name and name.endswith("layers.2.bias")]:
        weights[name] = torch.tensor([-1.0, 1.0, 9.0, 9.0])  # up to the left edge, far wider than the picture
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (raw,) = [stock(folder, portrait(1), threshold=0.0, text_threshold=0.0)["boxes"]]
    assert float(raw.min()) < -5
    (found,) = open_model("detector", f"hf:{folder}").detect([portrait(1)], "person", **ALL)
    clipped = np.array(corners(found))
    assert clipped.min() >= 0
    assert (clipped.max(axis=0) <= [96, 80, 96, 80]).all()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"backbone_config": {"model_type": "timm_backbone", "backbone": "resnet50"}},
            "which could be read from outside",
        ),
        ({"backbone_config": None, "backbone": "microsoft/swin-tiny"}, "names 'microsoft/swin-tiny'"),
        ({"text_config": {"model_type": "gpt2"}}, "a part is of type 'gpt2'"),
        ({"model_type": "owlvit"}, "of type 'owlvit'"),
        ({"encoder_layers": 10**9}, "'encoder_layers' to 1000000000"),
        ({"num_queries": 10**9}, "'num_queries' to 1000000000"),
        ({"max_text_len": 10**9}, "'max_text_len' to 1000000000"),
    ],
)
def test_a_model_that_would_be_looked_up_or_made_up_is_refused(
    change: dict[str, Any], problem: str, folder: Path
) -> None:
    edit(folder / "config.json", **change)
    with pytest.raises(ModelError, match=problem) as caught:
        open_model("detector", f"hf:{folder}")
    assert caught.value.remedy
