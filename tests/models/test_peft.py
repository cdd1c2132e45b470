"""A base with an adapter merged into it answers as peft's own does; what would be left out of it is refused."""

from __future__ import annotations

import copy
import io
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from classifier_world import LABELS, save_classifier, save_timm
from hf_world import save_folder, tiny_tokenizer
from model_world import PROMPTS, Pictures, save_local_dir
from nightly import some
from peft_world import save_adapter
from PIL import Image
from safetensors.torch import load_file, save_file
from vlm_world import save_vlm

from fairgate.ground.errors import ModelError
from fairgate.models import local_paths, open_scorer, schemes

PREFIX = "base_model.model."
QUERY = ["q_proj", "v_proj"]
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"target_modules": QUERY},
    "convolution and embedding": {"target_modules": ["fc1", "patch_embedding", "token_embedding"], "use_rslora": True},
    "magnitudes": {"target_modules": ["fc2", "patch_embedding"], "use_dora": True},
    "expression and patterns": {
        "target_modules": r".*vision_model.*\.(q_proj|v_proj)",
        "rank_pattern": {"layers.0.self_attn.q_proj": 2},
        "alpha_pattern": {"q_proj": 3},
    },
    "the expression of Unsloth": {
        "target_modules": r"(?:.*?(?:vision|image|visual|patch|language|text).*?(?:self_attn|attention|attn|mixer|mlp)"
        r".*?\.(?:q_proj|fc1))|(?:\bmodel\.layers\.[\d]{1,}(?!.*\.experts\.\d)\..*?(?:self_attn|mlp).*?\."
        r"(?:(?:q_proj|fc1)))",
    },
    "the expression of ms-swift": {
        "target_modules": r"^(text_model(?=\.).*\.(q_proj|fc1)|(?!(visual_projection))vision_model(?=\.).*\.(fc2))$",
    },
    "one layer, and one whole": {
        "target_modules": ["q_proj"],
        "layers_to_transform": [1],
        "modules_to_save": ["visual_projection"],
    },
}


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder("clip", tmp_path_factory.mktemp("base") / "clip")


def loaded(folder: Path) -> Any:
    from transformers import CLIPModel

    return CLIPModel.from_pretrained(folder).eval()


def scorer(uri: str, pictures: Pictures) -> Any:
    return open_scorer(uri, pictures, device="cpu", cache=None, batch_size=4)


@pytest.fixture
def adapter(clip: Path, tmp_path: Path) -> Path:
    """One to spoil."""
    save_adapter(loaded(clip), tmp_path / "adapter", target_modules=QUERY)
    return tmp_path / "adapter"


@pytest.mark.parametrize("case", some(list(SETTINGS), 3))
def test_a_merged_adapter_answers_as_peft_merged_and_not_merged(
    case: str, clip: Path, tmp_path: Path, pictures: Pictures
) -> None:
    from transformers import AutoImageProcessor

    adapted = save_adapter(loaded(clip), tmp_path / "adapter", **SETTINGS[case])
    images = [Image.open(io.BytesIO(blob)) for blob in pictures.blobs]
    pixels = AutoImageProcessor.from_pretrained(clip)(images=images, return_tensors="pt")["pixel_values"]
    words = tiny_tokenizer()(PROMPTS, padding="max_length", max_length=12, return_tensors="pt")
    given = {name: words[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        apart = adapted(pixel_values=pixels, **given).logits_per_image
    merged = tmp_path / "merged"
    shutil.copytree(clip, merged)
    adapted.merge_and_unload().save_pretrained(merged)
    found = scorer(f"peft:{tmp_path / 'adapter'}?base=hf:{clip}", pictures)
    # the same products and sums in float32: peft's merged weights to the bit, but for a norm's order of sums
    whole = scorer(f"hf:{merged}", pictures)
    np.testing.assert_allclose(found.logits(PROMPTS), whole.logits(PROMPTS), atol=1e-6)
    np.testing.assert_allclose(found.logits(PROMPTS), apart, atol=1e-4)
    assert np.abs(found.logits(PROMPTS) - scorer(f"hf:{clip}", pictures).logits(PROMPTS)).max() > 1e-2
    assert found.uri.startswith("peft:")
    assert "rank 4" in found.note


def test_an_adapter_without_effect_gives_the_bases_answers_to_the_bit_under_another_fingerprint(
    clip: Path, tmp_path: Path, pictures: Pictures
) -> None:
    save_adapter(loaded(clip), tmp_path / "adapter", spread=0.0, target_modules=QUERY)
    found = scorer(f"peft:{tmp_path / 'adapter'}?base=hf:{clip}", pictures)
    plain = scorer(f"hf:{clip}", pictures)
    np.testing.assert_array_equal(found.logits(PROMPTS), plain.logits(PROMPTS))
    assert found.fingerprint != plain.fingerprint
    assert (found.tokenizer, found.preprocessing) == (plain.tokenizer, plain.preprocessing)


@pytest.mark.nightly
@pytest.mark.usefixtures("seeing_here")
def test_an_adapter_of_a_vision_language_model_is_merged_also_under_its_older_names(
    tmp_path: Path, pictures: Pictures
) -> None:
    from transformers import LlavaForConditionalGeneration

    base = save_vlm("llava", tmp_path / "llava")
    adapted = save_adapter(
        LlavaForConditionalGeneration.from_pretrained(base), tmp_path / "adapter", target_modules=QUERY
    )
    merged = Path(shutil.copytree(base, tmp_path / "merged"))
    adapted.merge_and_unload().save_pretrained(merged)

    def likelihoods(uri: str) -> Any:
        return scorer(f"{uri}?question=Who is it?", pictures).log_likelihoods(["doctor", "nurse"])

    expected = likelihoods(f"vlm:{merged}")
    np.testing.assert_allclose(likelihoods(f"peft:{tmp_path / 'adapter'}?base=vlm:{base}"), expected, atol=1e-6)
    weights = tmp_path / "adapter/adapter_model.safetensors"
    old = {
        name.replace("model.model.language_model.", "model.language_model.model."): tensor
        for name, tensor in load_file(weights).items()
    }
    assert set(old) != set(load_file(weights))
    save_file(old, weights)
    np.testing.assert_allclose(likelihoods(f"peft:{tmp_path / 'adapter'}?base=vlm:{base}"), expected, atol=1e-6)


def test_a_classifier_is_judged_with_its_adapter_and_the_head_that_was_trained_whole(
    tmp_path: Path, pictures: Pictures
) -> None:
    from transformers import AutoModelForImageClassification

    base = save_classifier("vit", tmp_path / "vit")
    model = AutoModelForImageClassification.from_pretrained(base)
    leaves = {name.rpartition(".")[2] for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}
    settings = {"target_modules": sorted(leaves - {"classifier"}), "modules_to_save": ["classifier"]}
    adapted = save_adapter(model, tmp_path / "adapter", **settings)
    merged = Path(shutil.copytree(base, tmp_path / "merged"))
    adapted.merge_and_unload().save_pretrained(merged)
    found = scorer(f"peft:{tmp_path / 'adapter'}?base=classifier:{base}", pictures).log_probabilities(LABELS)
    whole = scorer(f"classifier:{merged}", pictures).log_probabilities(LABELS)
    np.testing.assert_allclose(found, whole, atol=1e-6)
    assert np.abs(found - scorer(f"classifier:{base}", pictures).log_probabilities(LABELS)).max() > 1e-2


def test_the_uri_names_the_adapter_and_its_base(clip: Path, adapter: Path, pictures: Pictures) -> None:
    uri = "peft:runs/lora?base=vlm:models/llava?question=Who?"
    assert [path.as_posix() for path in local_paths(uri)] == ["runs/lora", "models/llava"]
    assert schemes(uri) == ["peft", "vlm"]
    for wrong in (f"peft:{adapter}", f"peft:{adapter}?base=", f"peft:{adapter}?scale=2&base=hf:{clip}"):
        with pytest.raises(ModelError, match="which model the adapter was trained on") as caught:
            scorer(wrong, pictures)
        assert str(clip) in caught.value.problem  # what its config says, which is not followed
    with pytest.raises(ModelError, match="its base takes none"):
        scorer(f"peft:{adapter}?base=peft:{adapter}?base=hf:{clip}", pictures)


def test_a_classifier_of_timm_is_judged_with_its_adapter(tmp_path: Path, pictures: Pictures) -> None:
    model = save_timm("vit_tiny_patch16_224", tmp_path / "vit", img_size=32, depth=2)
    settings = {"target_modules": ["qkv", "fc1"], "modules_to_save": ["head"]}
    adapted = save_adapter(model, tmp_path / "adapter", **settings)
    merged = Path(shutil.copytree(tmp_path / "vit", tmp_path / "merged"))
    save_file(adapted.merge_and_unload().state_dict(), merged / "model.safetensors")
    found = scorer(f"peft:{tmp_path / 'adapter'}?base=timm:{tmp_path / 'vit'}", pictures)
    whole, plain = (scorer(f"timm:{folder}", pictures) for folder in (merged, tmp_path / "vit"))
    np.testing.assert_allclose(found.log_probabilities(LABELS), whole.log_probabilities(LABELS), atol=1e-6)
    assert np.abs(found.log_probabilities(LABELS) - plain.log_probabilities(LABELS)).max() > 1e-3
    assert len({found.fingerprint, whole.fingerprint, plain.fingerprint}) == 3


def test_a_clip_of_open_clip_is_judged_with_its_adapter(
    tmp_path: Path, local_dir: Path, tiny_model: Any, pictures: Pictures
) -> None:
    adapted = save_adapter(copy.deepcopy(tiny_model), tmp_path / "adapter", target_modules=["c_fc", "c_proj"])
    merged = save_local_dir(tmp_path / "merged", adapted.merge_and_unload())
    found = scorer(f"peft:{tmp_path / 'adapter'}?base=open_clip:local-dir:{local_dir}", pictures)
    whole, plain = (scorer(f"open_clip:local-dir:{folder}", pictures) for folder in (merged, local_dir))
    np.testing.assert_allclose(found.logits(PROMPTS), whole.logits(PROMPTS), atol=1e-5)
    assert np.abs(found.logits(PROMPTS) - plain.logits(PROMPTS)).max() > 1e-3
    assert len({found.fingerprint, whole.fingerprint, plain.fingerprint}) == 3
    (tmp_path / "adapter/tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"its own tokenizer.json, which its base does not read"):
        scorer(f"peft:{tmp_path / 'adapter'}?base=open_clip:local-dir:{local_dir}", pictures)


def test_a_base_that_is_no_checkpoint_of_these_libraries_takes_no_adapter(
    adapter: Path, tmp_path: Path, pictures: Pictures
) -> None:
    import torchvision

    model = torchvision.models.squeezenet1_1(num_classes=len(LABELS))
    save_file(model.state_dict(), tmp_path / "net.safetensors")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS))
    base = f"torchvision:squeezenet1_1@{tmp_path / 'net.safetensors'}?labels={tmp_path / 'labels.txt'}"
    with pytest.raises(ModelError, match="transformers, timm or open_clip, and its base takes none"):
        scorer(f"peft:{adapter}?base={base}", pictures)


def test_a_tokenizer_of_its_own_takes_the_place_of_the_bases(clip: Path, adapter: Path, pictures: Pictures) -> None:
    plain = scorer(f"peft:{adapter}?base=hf:{clip}", pictures)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(clip / name, adapter)
    words = json.loads((adapter / "tokenizer.json").read_text())
    words["model"]["vocab"].update(doctor=words["model"]["vocab"]["nurse"], nurse=words["model"]["vocab"]["doctor"])
    (adapter / "tokenizer.json").write_text(json.dumps(words))
    own = scorer(f"peft:{adapter}?base=hf:{clip}", pictures)
    assert own.tokenizer != plain.tokenizer
    assert own.fingerprint != plain.fingerprint
    assert "its own tokenizer.json" in own.note
    np.testing.assert_array_equal(own.logits(PROMPTS[:2]), plain.logits(PROMPTS[:2])[:, ::-1])


def edit(adapter: Path, **changes: Any) -> None:
    config = adapter / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))


def rewrite(adapter: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(adapter / "adapter_model.safetensors")
    change(tensors)
    save_file(tensors, adapter / "adapter_model.safetensors")


def test_the_configs_strength_is_part_of_the_fingerprint(clip: Path, adapter: Path, pictures: Pictures) -> None:
    before = scorer(f"peft:{adapter}?base=hf:{clip}", pictures)
    expected, fingerprint = before.logits(PROMPTS), before.fingerprint
    edit(adapter, lora_alpha=16)
    after = scorer(f"peft:{adapter}?base=hf:{clip}", pictures)
    assert after.fingerprint != fingerprint
    assert np.abs(after.logits(PROMPTS) - expected).max() > 1e-3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"peft_type": "PREFIX_TUNING"}, "'PREFIX_TUNING', which fairgate does not merge"),
        ({"init_lora_weights": "pissa"}, "changes the base's own weights"),
        ({"layer_replication": [[0, 2]]}, "layer_replication"),
        ({"corda_config": {"kept": "/tmp/x"}}, "corda_config"),
        ({"lora_dropout": {"p": "0.1"}}, "lora_dropout"),
        ({"a_new_setting": 3}, "'a_new_setting'"),
        ({"lora_alpha": float("inf")}, "lora_alpha"),
        ({"alpha_pattern": {"(a+)+": 3}}, "alpha_pattern"),
        ({"target_modules": "(?i).*q_proj"}, r"leaves out, or makes up, .*v_proj"),
        (
            {"target_modules": ".*[qv[:alpha:]]_proj"},
            "leaves out, or makes up",
        ),  # not in re
        ({"target_modules": "(.*)*(.*)*(.*)*(.*)*(.*)*z"}, "wrong or takes too long|No `target_modules`"),
        ({"target_modules": "(q_proj"}, "wrong or takes too long"),
        ({"target_modules": ["q_proj"]}, r"leaves out, or makes up, .*v_proj"),
        ({"exclude_modules": ["v_proj"]}, r"leaves out, or makes up, .*v_proj"),
        ({"target_modules": [*QUERY, "k_proj"]}, r"leaves out, or makes up, .*k_proj"),
        ({"modules_to_save": ["visual_projection"]}, r"visual_projection\.weight"),
        ({"r": 5}, "size mismatch"),
        ({"r": True}, "TypeError"),
        ({"use_dora": True}, r"leaves out, or makes up, .*magnitude"),
    ],
)
def test_a_config_that_says_other_than_the_tensors_is_refused(
    changes: dict[str, Any], problem: str, clip: Path, adapter: Path, pictures: Pictures
) -> None:
    edit(adapter, **changes)
    with pytest.raises(ModelError, match=problem) as caught:
        scorer(f"peft:{adapter}?base=hf:{clip}", pictures).logits(PROMPTS)
    assert str(adapter) in str(caught.value.where)
    assert caught.value.remedy


def test_the_class_and_the_base_that_a_config_names_are_not_followed(
    clip: Path, adapter: Path, pictures: Pictures
) -> None:
    expected = scorer(f"peft:{adapter}?base=hf:{clip}", pictures).logits(PROMPTS)
    edit(adapter, auto_mapping={"base_model_class": "M", "parent_library": "evil.code"}, base_model_name_or_path="/no")
    np.testing.assert_array_equal(scorer(f"peft:{adapter}?base=hf:{clip}", pictures).logits(PROMPTS), expected)


LAYER = "base_model.model.vision_model.encoder.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t.pop(f"{LAYER}.lora_B.weight"), "leaves out, or makes up"),
        (
            lambda t: t.update({"base_model.model.text_model.final_layer_norm.bias": torch.zeros(32)}),
            "final_layer_norm",
        ),
        (lambda t: t.update({"stray": torch.zeros(2)}), "leaves out, or makes up, stray"),
        (lambda t: t.update({f"{LAYER}.lora_B.bias": torch.zeros(32)}), "leaves out, or makes up"),
        (lambda t: t.update({f"{LAYER}.lora_A.weight": torch.zeros(4, 31)}), "size mismatch"),
        (lambda t: t.update({f"{LAYER}.lora_A.weight": torch.full((4, 32), torch.nan)}), "NaN or infinite"),
        (lambda t: t.update({f"{LAYER}.lora_A.weight": torch.full((4, 32), 3.4e38)}), "NaN|other numbers"),
        (
            lambda t: t.update({name.replace("layers.0", "layers.7"): t.pop(name) for name in [*t]}),
            "leaves out, or makes up",
        ),
    ],
)
def test_tensors_that_would_be_left_out_or_made_up_are_refused(
    change: Callable[[dict[str, torch.Tensor]], Any], problem: str, clip: Path, adapter: Path, pictures: Pictures
) -> None:
    rewrite(adapter, change)
    with pytest.raises(ModelError, match=problem):
        scorer(f"peft:{adapter}?base=hf:{clip}", pictures).logits(PROMPTS)


def test_pickled_and_missing_weights_are_refused(clip: Path, adapter: Path, pictures: Pictures) -> None:
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(ModelError, match="only pickled weights"):
        scorer(f"peft:{adapter}?base=hf:{clip}", pictures)
    with pytest.raises(ModelError, match=r"no adapter_config\.json") as caught:
        scorer(f"peft:{adapter.parent}?base=hf:{clip}", pictures)
    assert str(adapter) in str(caught.value.remedy)


def test_a_file_of_the_adapter_that_changes_before_it_is_loaded_is_an_error(
    clip: Path, adapter: Path, pictures: Pictures
) -> None:
    found = scorer(f"peft:{adapter}?base=hf:{clip}", pictures)
    rewrite(adapter, lambda tensors: tensors.update({f"{LAYER}.lora_A.weight": torch.ones(4, 32)}))
    with pytest.raises(ModelError, match="changed between hashing and loading"):
        found.logits(PROMPTS)


BIASED_HEAD = [
    *("visual_projection.base_layer.weight", "visual_projection.modules_to_save.default.weight"),
    *("visual_projection.original_module.weight", "visual_projection.modules_to_save.weight"),
]


@pytest.mark.parametrize("second", BIASED_HEAD)
@pytest.mark.parametrize("alone", [False, True], ids=["beside", "alone"])
def test_a_whole_layer_under_a_second_name_is_refused_whatever_peft_makes_of_it(
    second: str, alone: bool, clip: Path, tmp_path: Path, pictures: Pictures
) -> None:
    """Otherwise one layer would be judged and another deployed: peft reads one of the two names."""
    saved = {"target_modules": QUERY, "modules_to_save": ["visual_projection"]}
    save_adapter(loaded(clip), tmp_path / "adapter", **saved)
    own = f"{PREFIX}visual_projection.weight"

    def doubled(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"{PREFIX}{second}"] = -tensors[own]
        if alone:
            del tensors[own]

    rewrite(tmp_path / "adapter", doubled)
    with pytest.raises(ModelError):
        scorer(f"peft:{tmp_path / 'adapter'}?base=hf:{clip}", pictures).logits(PROMPTS)


def test_the_second_name_of_a_head_is_one_that_peft_itself_leaves_out(clip: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    save_adapter(loaded(clip), tmp_path / "adapter", target_modules=QUERY, modules_to_save=["visual_projection"])

    def head() -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the tensor that is left out
            model = PeftModel.from_pretrained(loaded(clip), tmp_path / "adapter").merge_and_unload()
        return torch.as_tensor(model.visual_projection.weight).detach().clone()

    before = head()
    name = f"{PREFIX}visual_projection.weight"
    second = f"{PREFIX}visual_projection.base_layer.weight"
    rewrite(tmp_path / "adapter", lambda tensors: tensors.update({second: -tensors[name]}))
    torch.testing.assert_close(head(), before)


@pytest.mark.parametrize(("bias", "name"), [("all", "q_proj.bias"), ("lora_only", "q_proj.bias")])
def test_the_bias_of_an_updated_layer_counts_under_the_name_that_peft_reads_alone(
    bias: str, name: str, clip: Path, tmp_path: Path, pictures: Pictures
) -> None:
    from peft import PeftModel

    save_adapter(loaded(clip), tmp_path / "adapter", target_modules=["q_proj"], bias=bias)
    layer = f"{PREFIX}vision_model.encoder.layers.0.self_attn.{name}"
    plain, wrapped = layer, layer.replace(".bias", ".base_layer.bias")

    def with_bias(where: str) -> Callable[[dict[str, torch.Tensor]], Any]:
        def change(tensors: dict[str, torch.Tensor]) -> None:
            tensors.pop(plain, None)
            tensors.pop(wrapped, None)
            tensors[where] = torch.full(
                (loaded(clip).vision_model.encoder.layers[0].self_attn.q_proj.out_features,), 0.5
            )

        return change

    rewrite(tmp_path / "adapter", with_bias(plain))
    with pytest.raises(ModelError, match="peft leaves out"):
        scorer(f"peft:{tmp_path / 'adapter'}?base=hf:{clip}", pictures).logits(PROMPTS)
    rewrite(tmp_path / "adapter", with_bias(wrapped))
    judged = scorer(f"peft:{tmp_path / 'adapter'}?base=hf:{clip}", pictures).logits(PROMPTS)
    merged = Path(shutil.copytree(clip, tmp_path / "merged"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of biases that are not in the file
        PeftModel.from_pretrained(loaded(clip), tmp_path / "adapter").merge_and_unload().save_pretrained(merged)
    np.testing.assert_allclose(judged, scorer(f"hf:{merged}", pictures).logits(PROMPTS), atol=1e-6)


def test_two_tensors_for_one_part_of_an_update_are_refused(clip: Path, tmp_path: Path, pictures: Pictures) -> None:
    save_adapter(loaded(clip), tmp_path / "adapter", target_modules=["fc2"], use_dora=True)

    def doubled(tensors: dict[str, torch.Tensor]) -> None:
        name = next(name for name in tensors if name.endswith("lora_magnitude_vector"))
        tensors[f"{name}.weight"] = tensors[name] * 2

    rewrite(tmp_path / "adapter", doubled)
    with pytest.raises(ModelError, match="leaves out, or makes up"):
        scorer(f"peft:{tmp_path / 'adapter'}?base=hf:{clip}", pictures).logits(PROMPTS)


def test_parts_for_an_embedding_are_refused_for_a_linear_layer(adapter: Path, clip: Path, pictures: Pictures) -> None:
    """peft would leave both out, and the layer as it is in the base."""

    def renamed(tensors: dict[str, torch.Tensor]) -> None:
        name = next(name for name in tensors if name.endswith("q_proj.lora_A.weight"))
        stem = name.removesuffix("lora_A.weight")
        tensors[f"{stem}lora_embedding_A"] = tensors.pop(name)
        tensors[f"{stem}lora_embedding_B"] = tensors.pop(f"{stem}lora_B.weight")

    rewrite(adapter, renamed)
    with pytest.raises(ModelError, match="leaves out, or makes up"):
        scorer(f"peft:{adapter}?base=hf:{clip}", pictures).logits(PROMPTS)
