"""SAM and SAM 2 give the library's mask of highest predicted IoU, in the picture's own size."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from perceiver_world import PHOTOS, edit, portrait
from PIL import Image
from safetensors.torch import load_file, save_file

from fairgate.ground.errors import ModelError
from fairgate.models.generation import Box, Mask, open_model

KINDS = {"sam": ("SamModel", "SamProcessor"), "sam2": ("Sam2Model", "Sam2Processor")}
BOX = Box(20.0, 12.0, 70.0, 66.0)


def stock(kind: str, folder: Path, image: Image.Image, box: Box) -> tuple[list[Mask], list[float]]:
    """The library's three masks of one box and their predicted IoU."""
    model, processor = (getattr(transformers, name).from_pretrained(folder) for name in KINDS[kind])
    corners = [[[box.left, box.top, box.right, box.bottom]]]
    inputs = processor(images=image, input_boxes=corners, return_tensors="pt")
    sizes = {name: inputs.pop(name) for name in ("original_sizes", "reshaped_input_sizes") if name in inputs}
    with torch.no_grad():
        outputs = model.eval()(**inputs, multimask_output=True)
    (masks,) = processor.post_process_masks(outputs.pred_masks, **sizes)
    return [mask.numpy().astype(bool) for mask in masks[0]], outputs.iou_scores[0, 0].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_is_the_librarys_best_in_the_pictures_own_size(kind: str, perceivers: dict[str, Path]) -> None:
    images = [portrait(1), portrait(2, (70, 110)), portrait(3)]
    boxes = [BOX, Box(5.0, 20.0, 60.0, 90.0), Box(0.0, 0.0, 40.0, 40.0)]
    segmenter = open_model("segmenter", f"hf:{perceivers[kind]}")
    for image, box, mask in zip(images, boxes, segmenter.segment(images, boxes), strict=True):
        masks, scores = stock(kind, perceivers[kind], image, box)
        assert mask.shape == (image.height, image.width)
        assert mask.dtype == bool
        assert np.mean(mask == masks[int(np.argmax(scores))]) > 0.999  # a pixel may tip at the threshold
    assert dict(segmenter.spent) == {"sam": 3}
    assert segmenter.segment([], []) == []
    with pytest.raises(ValueError, match="zip"):
        segmenter.segment(images, boxes[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_of_the_three_masks_the_one_with_the_highest_predicted_iou_is_taken(
    kind: str, perceivers: dict[str, Path], tmp_path: Path
) -> None:
    masks, _ = stock(kind, perceivers[kind], portrait(1), BOX)
    for best in range(3):
        folder = Path(shutil.copytree(perceivers[kind], tmp_path / str(best)))
        weights = load_file(folder / "model.safetensors")
        head = "mask_decoder.iou_prediction_head.proj_out"
        weights[f"{head}.weight"] = torch.zeros_like(weights[f"{head}.weight"])
        weights[f"{head}.bias"] = torch.zeros(4)
        weights[f"{head}.bias"][best + 1] = 0.5  # the first output is of the lone mask, for single-mask prompts
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        (found,) = open_model("segmenter", f"hf:{folder}").segment([portrait(1)], [BOX])
        assert [bool(np.mean(found == mask) > 0.999) for mask in masks].index(True) == best


@pytest.mark.skipif(not PHOTOS.is_dir(), reason="the photographs are not here")
def test_photographs_are_prepared_as_the_library_does(perceivers: dict[str, Path]) -> None:
    image = Image.open(PHOTOS / "1005.jpg").convert("RGB").crop((0, 0, 224, 190))
    box = Box(50.0, 20.0, 170.0, 180.0)
    for kind in KINDS:
        (found,) = open_model("segmenter", f"hf:{perceivers[kind]}").segment([image], [box])
        masks, scores = stock(kind, perceivers[kind], image, box)
        assert np.mean(found == masks[int(np.argmax(scores))]) > 0.999


def test_the_video_models_folder_is_read_for_its_image_half(perceivers: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(perceivers["sam2"], tmp_path / "video"))
    edit(folder / "config.json", model_type="sam2_video", architectures=["Sam2VideoModel"])
    weights = load_file(folder / "model.safetensors")
    weights |= {"memory_encoder.projection.weight": torch.zeros(2, 2), "no_object_pointer": torch.zeros(1, 16)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    found, expected = (
        open_model("segmenter", f"hf:{path}").segment([portrait(1)], [BOX])[0] for path in (folder, perceivers["sam2"])
    )
    np.testing.assert_array_equal(found, expected)


def test_other_models_and_weights_that_do_not_fit_are_refused(perceivers: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="of type 'vilt', which the hf: adapter does not segment with"):
        open_model("segmenter", f"hf:{perceivers['vilt']}")
    folder = Path(shutil.copytree(perceivers["sam"], tmp_path / "sam"))
    weights = load_file(folder / "model.safetensors")
    weights["mask_decoder.iou_token.weight"] = torch.full((1, 16), float("nan"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"NaN or infinite weights: mask_decoder\.iou_token\.weight"):
        open_model("segmenter", f"hf:{folder}")


@pytest.mark.parametrize(
    "prompts",
    [{"image_size": 8192, "patch_size": 1}, {"image_size": 64, "patch_size": 0}, {"image_embedding_size": 10**6}],
)
def test_a_grid_of_positions_that_would_fill_the_memory_is_refused(
    prompts: dict[str, int], perceivers: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(perceivers["sam"], tmp_path / "sam"))
    edit(folder / "config.json", prompt_encoder_config={"hidden_size": 16, "mask_input_channels": 8, **prompts})
    with pytest.raises(ModelError, match=r"on a grid of|'image_embedding_size' to 1000000"):
        open_model("segmenter", f"hf:{folder}")
