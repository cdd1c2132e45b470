"""An ONNX classifier's outputs are onnxruntime's own; what the file and the URI leave open is refused, not guessed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_world import Pictures, encoded, picture
from PIL import Image

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx import TensorProto, helper
from onnx_world import LABELS, SHOWN, SIDE, onnx_model, save_onnx, with_data

from fairgate.ground.errors import ModelError
from fairgate.models import EmbeddingCache, local_paths, open_scorer

pytestmark = pytest.mark.usefixtures("sessions_here")
MEAN, STD = np.array([0.5, 0.4, 0.3], np.float32), np.float32(0.25)


def opened(uri: str, pictures: Pictures, base: Path, cache: EmbeddingCache | None = None, size: int = 4) -> Any:
    return open_scorer(uri, pictures, device="cpu", base=base, cache=cache, batch_size=size)


def shown(pictures: Pictures, side: int = SIDE) -> np.ndarray:
    """What the options of SHOWN make of pictures, computed apart: (pictures, 3, side, side) float32."""
    rows = []
    for blob in pictures.blobs:
        image = Image.open(io.BytesIO(blob)).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
        rows.append(((np.asarray(image, np.float32) / np.float32(255) - MEAN) / STD).transpose(2, 0, 1))
    return np.stack(rows)


def by_onnxruntime(path: Path, batch: np.ndarray, output: str = "logits") -> np.ndarray:
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run([output], {"pixels": batch})[0]


@pytest.mark.parametrize("first", ["batch", 1, 4, 3])
def test_outputs_are_those_of_onnxruntime_with_any_batch_dimension(
    first: Any, tmp_path: Path, pictures: Pictures
) -> None:
    path = save_onnx(tmp_path / "m.onnx", onnx_model(shape=(first, 3, SIDE, SIDE)))
    scorer = opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}", pictures, tmp_path)
    free = save_onnx(tmp_path / "free.onnx")
    expected = by_onnxruntime(free, shown(pictures))
    np.testing.assert_allclose(scorer.outputs(), expected, rtol=1e-6, atol=1e-6)
    assert float(expected.std(axis=0).min()) > 1e-2  # the pictures matter
    assert scorer.predict("job").labels.tolist() == [LABELS[place] for place in expected.argmax(axis=1)]
    assert (scorer.device, scorer.preparation) == ("cpu", "onnx/1")
    assert path.is_file()


def test_channels_may_be_last_in_the_file_and_first_in_a_picture(tmp_path: Path, pictures: Pictures) -> None:
    save_onnx(tmp_path / "first.onnx")
    save_onnx(tmp_path / "last.onnx", onnx_model(shape=("batch", SIDE, SIDE, 3)))
    first, last = (
        opened(f"onnx:{name}.onnx?labels=labels.txt&{SHOWN}", pictures, tmp_path) for name in ("first", "last")
    )
    np.testing.assert_allclose(first.outputs(), last.outputs(), rtol=1e-5, atol=1e-5)
    assert first.preprocessing == last.preprocessing


def test_a_shape_that_does_not_tell_its_channels_is_refused_until_the_uri_says(
    tmp_path: Path, pictures: Pictures
) -> None:
    save_onnx(tmp_path / "m.onnx", onnx_model(shape=("batch", 3, "height", 3)))
    with pytest.raises(ModelError, match="does not tell where its three channels are") as caught:
        opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}", pictures, tmp_path).outputs()
    assert "&layout=nchw" in str(caught.value.remedy)
    narrow = SHOWN.replace("size=8", "size=8x3")
    assert opened(f"onnx:m.onnx?labels=labels.txt&{narrow}&layout=nchw", pictures, tmp_path).outputs().shape == (10, 3)
    save_onnx(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="is not nhwc"):
        opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}&layout=nhwc", pictures, tmp_path).outputs()


@pytest.mark.parametrize(("end", "scores"), [("Softmax", "probabilities"), ("Sigmoid", "sigmoid")])
def test_probabilities_are_taken_back_to_logits_and_never_for_logits(
    end: str, scores: str, tmp_path: Path, pictures: Pictures
) -> None:
    save_onnx(tmp_path / "m.onnx")
    save_onnx(tmp_path / "p.onnx", onnx_model(ends=[end]))
    logits = opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}", pictures, tmp_path)
    uri = f"onnx:p.onnx?labels=labels.txt&{SHOWN}"
    with pytest.raises(ModelError, match="every output is between 0 and 1") as caught:
        opened(uri, pictures, tmp_path, size=16).outputs()
    assert f"&scores={scores}" in str(caught.value.remedy)
    said = opened(f"{uri}&scores={scores}", pictures, tmp_path)
    np.testing.assert_allclose(said.log_probabilities(LABELS), logits.log_probabilities(LABELS), atol=1e-4)
    other = {"sigmoid": "probabilities"}.get(scores)
    if other:
        with pytest.raises(ModelError, match="no probabilities"):
            opened(f"{uri}&scores={other}", pictures, tmp_path).outputs()
    with pytest.raises(ModelError, match="the outputs are no sigmoids"):
        opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}&scores=sigmoid", pictures, tmp_path).outputs()


def test_a_probability_of_zero_is_finite(tmp_path: Path, pictures: Pictures) -> None:
    model = onnx_model(ends=["Softmax", "Round"])
    save_onnx(tmp_path / "m.onnx", model)
    scorer = opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}&scores=probabilities", pictures, tmp_path)
    assert np.isfinite(scorer.outputs()).all()
    assert set(scorer.predict("job").labels) <= set(LABELS)


def test_one_output_of_two_labels_is_the_second_ones(tmp_path: Path, pictures: Pictures) -> None:
    path = save_onnx(tmp_path / "m.onnx", onnx_model(width=1, ends=["Sigmoid"]), ["woman", "man"])
    scorer = opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}&scores=sigmoid", pictures, tmp_path)
    expected = by_onnxruntime(path, shown(pictures))
    np.testing.assert_allclose(np.exp(scorer.log_probabilities(["man", "woman"]))[:, :1], expected, rtol=1e-4)


def test_a_model_that_takes_levels_is_shown_levels(tmp_path: Path, pictures: Pictures) -> None:
    path = save_onnx(tmp_path / "m.onnx", onnx_model(kind=TensorProto.UINT8))
    with pytest.raises(ModelError, match="takes levels from 0 to 255") as caught:
        opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}", pictures, tmp_path).outputs()
    assert "&scale=1" in str(caught.value.remedy)
    scorer = opened(f"onnx:m.onnx?labels=labels.txt&size={SIDE}&scale=1", pictures, tmp_path)
    levels = np.rint((shown(pictures).transpose(0, 2, 3, 1) * STD + MEAN) * 255).astype(np.uint8).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(scorer.outputs(), by_onnxruntime(path, levels), rtol=1e-4, atol=1e-4)


def test_pictures_are_cut_and_their_channels_turned_as_the_uri_says(tmp_path: Path) -> None:
    from torchvision.transforms import v2

    image = picture(7, (50, 36))
    save_onnx(tmp_path / "m.onnx", onnx_model(shape=("batch", 3, "height", "width")))
    uri = "onnx:m.onnx?labels=labels.txt&size=12&crop=9&mean=0.5&std=0.5&channels=bgr&interpolation=bicubic"
    scorer = opened(uri, Pictures([encoded(image)]), tmp_path)
    made = scorer._engine().prepare(image)
    bicubic = v2.InterpolationMode.BICUBIC
    cut = v2.CenterCrop(9)(v2.Resize(12, interpolation=bicubic)(image))
    expected = ((np.asarray(cut, np.float32) / 255 - 0.5) / 0.5)[..., ::-1].transpose(2, 0, 1)
    np.testing.assert_allclose(made, expected, atol=1e-6)


def test_the_processor_of_a_folder_prepares_pictures_as_transformers_does(tmp_path: Path, pictures: Pictures) -> None:
    from transformers import ViTImageProcessor

    path = save_onnx(tmp_path / "m.onnx")
    size = {"height": SIDE, "width": SIDE}
    processor = ViTImageProcessor(size=size, image_mean=[0.5, 0.4, 0.3], image_std=[0.25] * 3)
    processor.save_pretrained(tmp_path / "processor")
    scorer = opened("onnx:m.onnx?labels=labels.txt&processor=processor", pictures, tmp_path)
    images = [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]
    batch = np.asarray(processor(images=images, return_tensors="np")["pixel_values"])
    np.testing.assert_allclose(scorer.outputs(), by_onnxruntime(path, batch), rtol=1e-5, atol=1e-5)


def test_a_processor_that_lies_beside_the_model_has_to_be_named(tmp_path: Path, pictures: Pictures) -> None:
    from transformers import ViTImageProcessor

    save_onnx(tmp_path / "export" / "m.onnx")
    ViTImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(tmp_path / "export")
    with pytest.raises(ModelError, match="lies beside the model") as caught:
        opened("onnx:export/m.onnx?labels=export/labels.txt", pictures, tmp_path)
    assert "&processor=export:" in str(caught.value.remedy)
    assert opened("onnx:export/m.onnx?labels=export/labels.txt&processor=export", pictures, tmp_path).outputs().shape[0]
    assert opened(f"onnx:export/m.onnx?labels=export/labels.txt&{SHOWN}", pictures, tmp_path).outputs().shape[0]


def test_weights_in_a_file_of_their_own_are_named_and_hashed(tmp_path: Path, pictures: Pictures) -> None:
    whole = save_onnx(tmp_path / "whole.onnx")
    with_data(tmp_path / "m" / "m.onnx", "parts/w.bin", tmp_path / "m" / "parts" / "w.bin")
    uri = f"onnx:m/m.onnx?labels=labels.txt&{SHOWN}&data=m/parts/w.bin"
    assert local_paths(uri) == (Path("m/m.onnx"), Path("labels.txt"), Path("m/parts/w.bin"))
    scorer = opened(uri, pictures, tmp_path)
    np.testing.assert_allclose(scorer.outputs(), by_onnxruntime(whole, shown(pictures)), rtol=1e-6, atol=1e-6)
    (tmp_path / "m" / "parts" / "w.bin").write_bytes(bytes(36))
    assert opened(uri, pictures, tmp_path).fingerprint != scorer.fingerprint


def test_everything_that_changes_outputs_changes_the_fingerprint(tmp_path: Path, pictures: Pictures) -> None:
    save_onnx(tmp_path / "m.onnx")
    save_onnx(tmp_path / "other.onnx", onnx_model(seed=1))
    (tmp_path / "names.json").write_text(json.dumps(["a", "b", "c"]))
    uris = [
        f"onnx:m.onnx?labels=labels.txt&{SHOWN}",
        f"onnx:other.onnx?labels=labels.txt&{SHOWN}",
        f"onnx:m.onnx?labels=names.json&{SHOWN}",
        f"onnx:m.onnx?labels=labels.txt&{SHOWN}&channels=bgr",
        f"onnx:m.onnx?labels=labels.txt&{SHOWN}&scores=logits",
        f"onnx:m.onnx?labels=labels.txt&{SHOWN}&output=logits",
    ]
    models = [opened(uri, pictures, tmp_path) for uri in uris]
    assert len({model.fingerprint for model in models}) == len(uris)
    assert [model.tokenizer == models[0].tokenizer for model in models] == [True, True, False, True, True, True]
    assert [model.preprocessing == models[0].preprocessing for model in models].count(False) == 1


def test_outputs_are_cached_by_content(tmp_path: Path, pictures: Pictures, cache: EmbeddingCache) -> None:
    uri = f"onnx:m.onnx?labels=labels.txt&{SHOWN}"
    save_onnx(tmp_path / "m.onnx")
    first = opened(uri, pictures, tmp_path, cache).outputs()
    read = pictures.handed_out
    np.testing.assert_array_equal(opened(uri, pictures, tmp_path, cache).outputs(), first)
    assert pictures.handed_out == read
    save_onnx(tmp_path / "m.onnx", onnx_model(seed=1))
    assert not np.array_equal(opened(uri, pictures, tmp_path, cache).outputs(), first)


def test_labels_and_pictures_are_read_as_the_baseline_does(tmp_path: Path, pictures: Pictures) -> None:
    save_onnx(tmp_path / "m.onnx")
    (tmp_path / "names.json").write_text(json.dumps(["doctor", "chef", "nurse"]))
    before = opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}", pictures, tmp_path)
    after = opened(f"onnx:m.onnx?labels=names.json&{SHOWN}&channels=bgr", pictures, tmp_path)
    mixed = after.reading_as(before, tokenizer=True, preprocessing=True)
    np.testing.assert_array_equal(mixed.log_probabilities(LABELS), before.log_probabilities(LABELS))
    assert mixed.embeds_alike(before)
    assert not after.embeds_alike(before)


def test_an_exported_model_is_judged_with_the_pictures_of_the_one_it_was_exported_from(
    tmp_path: Path, pictures: Pictures
) -> None:
    from classifier_world import save_classifier

    shape = ("batch", "height", "width", 3)
    path = save_onnx(tmp_path / "m.onnx", onnx_model(shape=shape))
    save_classifier("vit", tmp_path / "vit", LABELS)
    exported = opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}", pictures, tmp_path)
    original = opened("classifier:vit", pictures, tmp_path)
    mixed = exported.reading_as(original, tokenizer=False, preprocessing=True)
    images = [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]
    batch = np.stack([original._engine().prepare(image)["pixel_values"] for image in images])
    expected = by_onnxruntime(path, batch.transpose(0, 2, 3, 1))
    np.testing.assert_allclose(mixed.outputs(), expected, rtol=1e-5, atol=1e-5)


def two_outputs(width: int) -> Any:
    """A model with a second output of the same width."""
    node = helper.make_node("Neg", ["logits"], ["other"])
    return onnx_model(width=width, nodes=[node], outputs=[("other", ["batch", width])])


OPEN = {
    "no labels": (f"?{SHOWN}", None, "does not say what its outputs are called", "labels=FILE"),
    "no pictures": ("?labels=labels.txt", None, "does not say how pictures are prepared", "&processor=FOLDER"),
    "a size alone": ("?labels=labels.txt&size=8", None, "does not say how pictures are prepared", "&mean="),
    "a mean alone": ("?labels=labels.txt&size=8&scale=1&mean=3", None, "not the other", "&std="),
    "two outputs": (f"?labels=labels.txt&{SHOWN}", two_outputs(3), "several of the model's outputs", "&output=logits"),
    "four labels": (f"?labels=labels.txt&{SHOWN}", onnx_model(width=4), "a number for each of 3 labels", "in labels="),
    "no such output": (f"?labels=labels.txt&{SHOWN}&output=x", None, "no output 'x'", "it has: logits"),
    "another size": ("?labels=labels.txt&size=9&scale=1", None, "prepared as", "&size=HEIGHTxWIDTH"),
    "grey pictures": (
        f"?labels=labels.txt&{SHOWN}",
        onnx_model(shape=("batch", SIDE, SIDE, 1)),
        "where its three channels are",
        "3 channels",
    ),
    "ids of texts": (
        f"?labels=labels.txt&{SHOWN}",
        onnx_model(kind=TensorProto.INT64),
        "is a tensor\\(int64\\)",
        "tensor\\(float\\)",
    ),
    "a giant batch": (
        f"?labels=labels.txt&{SHOWN}",
        onnx_model(shape=(1 << 30, 3, SIDE, SIDE)),
        "pictures at once",
        "free batch",
    ),
    "an unknown option": (f"?labels=labels.txt&{SHOWN}&colour=rgb", None, "unknown or empty", "did you mean"),
    "unknown scores": (f"?labels=labels.txt&{SHOWN}&scores=p", None, "'scores' is 'p'", "one of: logits"),
    "unknown channels": (f"?labels=labels.txt&{SHOWN}&channels=grb", None, "'channels' is", "one of: rgb"),
    "a scale of nothing": ("?labels=labels.txt&size=8&scale=1/0", None, "'scale' is '1/0'", "&scale=1/255"),
    "a deviation of 0": ("?labels=labels.txt&size=8&mean=0&std=0", None, "not above 0", "another"),
    "two means": ("?labels=labels.txt&size=8&mean=0,1&std=1", None, "holds 2 numbers", "one per channel"),
    "a crop that is too large": (f"?labels=labels.txt&{SHOWN}&crop=9", None, "with crop=", "&size=256&crop=224"),
}


@pytest.mark.parametrize("case", list(OPEN))
def test_what_is_open_is_refused_with_what_to_write(case: str, tmp_path: Path, pictures: Pictures) -> None:
    query, model, problem, remedy = OPEN[case]
    save_onnx(tmp_path / "m.onnx", model)
    with pytest.raises(ModelError, match=problem) as caught:
        opened(f"onnx:m.onnx{query}", pictures, tmp_path).outputs()
    assert remedy.replace("\\", "") in str(caught.value.remedy)


def test_a_processor_and_options_that_say_the_same_are_refused(tmp_path: Path, pictures: Pictures) -> None:
    save_onnx(tmp_path / "m.onnx")
    (tmp_path / "p").mkdir()
    uri = "onnx:m.onnx?labels=labels.txt&processor=p"
    with pytest.raises(ModelError, match="size= says it too"):
        opened(f"{uri}&size=8", pictures, tmp_path)
    with pytest.raises(ModelError, match="does not say how images are prepared"):
        opened(uri, pictures, tmp_path)
    (tmp_path / "p" / "preprocessor_config.json").write_text('{"size": 8}')
    with pytest.raises(ModelError, match="does not name its image processor"):
        opened(uri, pictures, tmp_path)


def test_numbers_that_are_not_finite_are_an_error_that_names_the_picture(tmp_path: Path, pictures: Pictures) -> None:
    save_onnx(tmp_path / "m.onnx", onnx_model(ends=["Log"]))
    with pytest.raises(ModelError, match="NaN, infinite") as caught:
        opened(f"onnx:m.onnx?labels=labels.txt&{SHOWN}", pictures, tmp_path).outputs()
    assert "val/" in str(caught.value.where)


@pytest.mark.parametrize(
    "uri",
    [
        "hf:{}",
        "classifier:{}",
        "features:{}?head=h",
        "diffusion:{}",
        "open_clip:ViT-B-32@./{}",
        "torchvision:resnet34@{}?labels=h",
    ],
)
def test_another_family_that_is_given_an_onnx_file_names_this_one(uri: str, tmp_path: Path, pictures: Pictures) -> None:
    save_onnx(tmp_path / "m.onnx")
    (tmp_path / "h").write_bytes(b"x")
    with pytest.raises(ModelError) as caught:
        opened(uri.format("m.onnx"), pictures, tmp_path)
    assert "name it onnx:FILE?labels=FILE" in str(caught.value.remedy)


def test_a_file_in_the_place_of_a_folder_is_called_a_file(tmp_path: Path, pictures: Pictures) -> None:
    (tmp_path / "best.pt").write_bytes(b"x")
    with pytest.raises(ModelError, match="the path is a file") as caught:
        opened("classifier:best.pt", pictures, tmp_path)
    assert "open_clip:ARCH@FILE" in str(caught.value.remedy)


def test_a_path_without_a_scheme_is_told_with_its_own(tmp_path: Path, pictures: Pictures) -> None:
    save_onnx(tmp_path / "m.onnx")
    with pytest.raises(ModelError) as caught:
        opened("m.onnx", pictures, tmp_path)
    assert str(caught.value.remedy).startswith("write `onnx:m.onnx?labels=FILE`")
