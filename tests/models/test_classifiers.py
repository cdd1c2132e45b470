"""Outputs of image classifiers are their library's own, and what a suite calls their labels is held to be the same."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from classifier_world import KINDS, LABELS, save_classifier
from model_world import Pictures
from nightly import some
from PIL import Image

from fairgate.ground.errors import CapabilityError, ModelError
from fairgate.models import EmbeddingCache, local_paths, open_scorer, require_capability


@pytest.fixture(scope="session")
def vit_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classifier("vit", tmp_path_factory.mktemp("vit") / "vit")


@pytest.fixture
def vit(vit_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(vit_folder, tmp_path / "vit"))


def opened(uri: str, pictures: Pictures, base: Path = Path(), cache: EmbeddingCache | None = None) -> Any:
    return open_scorer(uri, pictures, device="cpu", base=base, cache=cache, batch_size=4)


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}), encoding="utf-8")


@pytest.mark.parametrize("kind", some(list(KINDS)))
def test_a_folder_is_classified_as_the_library_does(kind: str, tmp_path: Path, pictures: Pictures) -> None:
    import torch
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    folder = save_classifier(kind, tmp_path / kind)
    model = AutoModelForImageClassification.from_pretrained(folder).eval()
    images = [Image.open(io.BytesIO(blob)) for blob in pictures.blobs]
    with torch.no_grad():
        logits = model(**AutoImageProcessor.from_pretrained(folder)(images=images, return_tensors="pt")).logits.double()
    scorer = opened(f"classifier:{folder}", pictures)
    # batches of four and of ten sum in another order
    near = 1e-5 * max(1.0, float(logits.abs().max()))
    np.testing.assert_allclose(scorer.outputs(), logits, atol=near)
    assert float(logits.std(dim=0).max()) > 100 * near  # the pictures matter
    np.testing.assert_allclose(
        scorer.log_probabilities(["doctor", "line cook"]), torch.log_softmax(logits[:, [2, 1]], dim=1), atol=4 * near
    )
    assert scorer.predict("job").labels.tolist() == [LABELS[place] for place in logits.argmax(dim=1)]


def test_outputs_are_computed_once_and_cached(vit: Path, pictures: Pictures, cache: EmbeddingCache) -> None:
    first = opened(f"classifier:{vit}", pictures, cache=cache)
    found = first.log_probabilities(["chef", "doctor"])
    again = opened(f"classifier:{vit}", pictures, cache=cache)
    read = pictures.handed_out
    np.testing.assert_array_equal(again.log_probabilities(["chef", "doctor"]), found)
    np.testing.assert_array_equal(again.predict("job").confidence, first.predict("job").confidence)
    assert pictures.handed_out == read == len(pictures)


def test_labels_of_a_sigmoid_each_compete_as_if_exactly_one_were_there(tmp_path: Path, pictures: Pictures) -> None:
    folder = save_classifier("vit", tmp_path / "vit", problem_type="multi_label_classification")
    scorer = opened(f"classifier:{folder}", pictures)
    odds = np.exp(scorer.outputs().astype(np.float64))  # p / (1 - p) of each sigmoid
    np.testing.assert_allclose(
        np.exp(scorer.log_probabilities(["chef", "doctor"])),
        odds[:, [0, 2]] / odds[:, [0, 2]].sum(axis=1, keepdims=True),
    )


def test_a_prompt_around_a_label_is_refused_with_the_template_that_works(vit: Path, pictures: Pictures) -> None:
    with pytest.raises(ModelError, match="no label 'a photo of a line cook'") as caught:
        opened(f"classifier:{vit}", pictures).log_probabilities(["a photo of a chef", "a photo of a line cook"][::-1])
    assert "did you mean 'line_cook'?" in str(caught.value.remedy)
    assert 'template: "{label}"' in str(caught.value.remedy)


def test_a_mapping_gives_a_suites_label_the_sum_of_several_of_the_models(
    vit: Path, pictures: Pictures, tmp_path: Path
) -> None:
    (tmp_path / "names.json").write_text(json.dumps({"cook": ["chef", "line cook"], "physician": "doctor"}))
    scorer = opened("classifier:vit?labels=names.json", pictures, tmp_path)
    plain = opened("classifier:vit", pictures, tmp_path)
    p = np.exp(plain.log_probabilities(LABELS))
    np.testing.assert_allclose(
        np.exp(scorer.log_probabilities(["cook", "physician"])), np.stack([p[:, 0] + p[:, 1], p[:, 2]], axis=1)
    )
    assert set(scorer.predict("job").labels) <= {"cook", "physician"}
    assert scorer.fingerprint != plain.fingerprint
    assert scorer.tokenizer != plain.tokenizer
    assert local_paths("classifier:vit?labels=names.json") == (Path("vit"), Path("names.json"))
    with pytest.raises(ModelError, match="no label 'chef'"):
        scorer.log_probabilities(["chef", "physician"])


REFUSED = {
    "a label that is not the model's": ({"cook": ["chefs"]}, "no label of the model", "did you mean 'Chef'"),
    "a label given away twice": ({"a": "chef", "b": "Chef"}, "mapped twice", "one name of the suite"),
    "a name that another label has": ({"doctor": "chef"}, "also that of another label", "map that label too"),
    "too few names": (["a", "b"], "2 labels are named, and the model has 3", "name all outputs"),
    "two equal names": (["a", "b_c", "B c"], "have one name", "differently"),
    "no names": ({}, "neither a list of labels nor a mapping", "in order"),
    "a number": ({"a": 3}, "neither a list of labels nor a mapping", "in order"),
    "control characters": (["a", "b", "c\u001b[2J"], "plain texts", "control characters"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_files_of_labels_that_do_not_fit_are_refused(case: str, vit: Path, pictures: Pictures, tmp_path: Path) -> None:
    said, problem, remedy = REFUSED[case]
    (tmp_path / "names.json").write_text(json.dumps(said))
    with pytest.raises(ModelError, match=problem) as caught:
        opened("classifier:vit?labels=names.json", pictures, tmp_path)
    assert remedy in str(caught.value.remedy)


def test_a_file_of_labels_that_cannot_be_read_or_is_not_there_is_refused(
    vit: Path, pictures: Pictures, tmp_path: Path
) -> None:
    (tmp_path / "names.json").write_bytes(b"[\xff")
    with pytest.raises(ModelError, match="cannot be read"):
        opened("classifier:vit?labels=names.json", pictures, tmp_path)
    with pytest.raises(ModelError, match="does not exist") as caught:
        opened("classifier:vit?labels=nmaes.json", pictures, tmp_path)
    assert "did you mean 'names.json'?" in str(caught.value.remedy)
    (tmp_path / "names.json").write_bytes(b" " * (17 << 20))
    with pytest.raises(ModelError, match="more than 16 MB"):
        opened("classifier:vit?labels=names.json", pictures, tmp_path)


CONFIGS = {
    "no names of outputs": ({"id2label": None}, "does not say what its outputs are called"),
    "a name is missing": ({"id2label": {"0": "chef", "2": "doctor"}}, "does not say what its outputs are called"),
    "two labels alike": ({"id2label": {"0": "chef", "1": "Chef", "2": "doctor"}}, "have one name"),
    "a regression": ({"problem_type": "regression"}, "trained for 'regression'"),
    "no classifier": (
        {"architectures": ["ViTModel"]},
        r"'vit' \(ViTModel\), which the classifier: adapter does not score",
    ),
    "no type": ({"model_type": None, "architectures": None}, r"config.json names no type of the model, and the"),
    "code of its own": ({"auto_map": {"AutoModel": "x.Y"}}, "names code of its own"),
    "timm's": ({"model_type": "timm_wrapper", "architecture": "hf-hub:evil/net"}, "name it timm:FOLDER"),
    "built by a name": ({"architecture": "hf-hub:evil/net"}, "could be read from outside"),
}


@pytest.mark.parametrize("case", list(CONFIGS))
def test_configs_that_are_no_plain_classifiers_are_refused(case: str, vit: Path, pictures: Pictures) -> None:
    changes, problem = CONFIGS[case]
    edit(vit, **changes)
    with pytest.raises(ModelError, match=problem):
        opened(f"classifier:{vit}", pictures)


def test_more_names_than_outputs_are_refused_when_the_weights_are_loaded(vit: Path, pictures: Pictures) -> None:
    edit(vit, id2label={str(place): f"job {place}" for place in range(4)})
    with pytest.raises(ModelError, match="does not fit"):
        opened(f"classifier:{vit}", pictures).log_probabilities(["job 1", "job 2"])


def test_renamed_labels_are_another_reading_and_are_judged_under_the_old_names(
    vit: Path, pictures: Pictures, tmp_path: Path
) -> None:
    before = opened(f"classifier:{vit}", pictures)
    renamed = Path(shutil.copytree(vit, tmp_path / "renamed"))
    edit(renamed, id2label={"0": "doctor", "1": "line_cook", "2": "Chef"})
    after = opened(f"classifier:{renamed}", pictures)
    np.testing.assert_array_equal(
        after.log_probabilities(["chef", "doctor"]), before.log_probabilities(["doctor", "chef"])
    )
    assert after.tokenizer != before.tokenizer
    assert after.preprocessing == before.preprocessing
    mixed = after.reading_as(before, tokenizer=True, preprocessing=False)
    np.testing.assert_array_equal(
        mixed.log_probabilities(["chef", "doctor"]), before.log_probabilities(["chef", "doctor"])
    )
    assert mixed.embeds_alike(before)
    assert not after.embeds_alike(mixed)


def test_pictures_are_prepared_as_the_baseline_does(vit: Path, pictures: Pictures, tmp_path: Path) -> None:
    before = opened(f"classifier:{vit}", pictures)
    brighter = Path(shutil.copytree(vit, tmp_path / "brighter"))
    path = brighter / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"image_mean": [0.1, 0.1, 0.1]}))
    after = opened(f"classifier:{brighter}", pictures)
    assert after.preprocessing != before.preprocessing
    assert not np.allclose(after.outputs(), before.outputs(), atol=1e-3)
    mixed = after.reading_as(before, tokenizer=False, preprocessing=True)
    np.testing.assert_array_equal(mixed.outputs(), before.outputs())
    assert not after.embeds_alike(mixed)


def test_another_number_of_labels_cannot_be_judged_under_the_old_names(
    vit: Path, pictures: Pictures, tmp_path: Path
) -> None:
    before = opened(f"classifier:{vit}", pictures)
    more = save_classifier("vit", tmp_path / "more", [*LABELS, "nurse"])
    with pytest.raises(ModelError, match="has 3 labels, and this model 4"):
        opened(f"classifier:{more}", pictures).reading_as(before, tokenizer=True, preprocessing=False)


def test_an_output_that_is_not_finite_is_an_error_that_names_the_image(tmp_path: Path, pictures: Pictures) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = save_classifier("vit", tmp_path / "vit")
    state = load_file(folder / "model.safetensors")
    state["classifier.weight"] = torch.full_like(state["classifier.weight"], 3e38)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="NaN, infinite") as caught:
        opened(f"classifier:{folder}", pictures).predict("job")
    assert "val/" in str(caught.value.where)


def test_a_classifier_ranks_by_no_text(vit: Path, pictures: Pictures) -> None:
    with pytest.raises(CapabilityError, match="lacks the capability 'similarity'"):
        require_capability(opened(f"classifier:{vit}", pictures), "similarity", "probe 'search'")
