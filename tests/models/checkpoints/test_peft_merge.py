"""An update is refused where the merged layer and peft's layer around the same one would give different numbers."""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from timm.layers import StdConv2d
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5DenseActDense

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints.peft_merge import merge_by_peft, read_peft_settings


def merge(model: Any, name: str, *, strength: float = 1.0, magnitude: float | None = None) -> Any:
    """Merge an update of rank 1 into a layer of a model; returns the layer's weight."""
    weight = model.get_submodule(name).weight
    settings = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": [name], "use_dora": bool(magnitude)}
    layer = f"base_model.model.{name}"
    tensors = {
        f"{layer}.lora_A.weight": torch.ones(1, *weight.shape[1:]),
        f"{layer}.lora_B.weight": torch.full((len(weight), 1, *[1] * (weight.ndim - 2)), strength),
    }
    if magnitude is not None:
        tensors[f"{layer}.lora_magnitude_vector"] = torch.full(
            (1, len(weight), 1, 1) if weight.ndim == 4 else (len(weight),), magnitude
        )
    merge_by_peft(model.eval(), read_peft_settings(settings, "adapter"), tensors, "adapter")
    return model.get_submodule(name).weight


def beit() -> Any:
    return timm.create_model("beit_base_patch16_224", img_size=32, depth=1, embed_dim=24, num_heads=2, num_classes=2)


def circular() -> Any:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding_mode="circular"))


def test_beit_takes_the_weight_of_qkv_alone_so_that_peft_has_no_effect_before_merging() -> None:
    from peft import LoraConfig, get_peft_model

    model, picture = beit().eval(), torch.randn(1, 3, 32, 32)
    before = model(picture)
    adapted = get_peft_model(model, LoraConfig(target_modules=["qkv"], init_lora_weights=False)).eval()
    assert torch.equal(adapted(picture), before)
    assert not torch.equal(adapted.merge_and_unload()(picture), before)


@pytest.mark.parametrize(
    ("model", "name", "reason"),
    [
        (beit, "blocks.0.attn.qkv", "Attention takes its weight alone"),
        (lambda: torch.nn.MultiheadAttention(4, 1), "out_proj", "MultiheadAttention takes its weight alone"),
        (lambda: torch.nn.Sequential(StdConv2d(3, 4, 3)), "0", "Expected more than 1 value"),
        (circular, "0", "pad with zeros"),
    ],
)
def test_a_layer_in_which_an_adapter_acts_otherwise_before_it_is_merged_is_refused(
    model: Any, name: str, reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        merge(model(), name)
    with pytest.raises(ModelError, match=reason):
        merge(model(), name, strength=0.0, magnitude=3.0)  # of DoRA, which changes a weight by its length alone


@pytest.mark.parametrize(("model", "name"), [(beit, "blocks.0.attn.qkv"), (circular, "0")])
def test_an_adapter_that_has_no_effect_either_way_is_merged(model: Any, name: str) -> None:
    merge(model(), name, strength=0.0)


@pytest.mark.parametrize("name", ["blocks.0.attn.proj", "blocks.0.mlp.fc1", "patch_embed.proj"])
def test_other_layers_of_the_same_network_are_merged(name: str) -> None:
    model = beit()
    before = model.get_submodule(name).weight.clone()
    assert torch.allclose(merge(model, name), before + 1.0)


def test_a_network_that_asks_for_the_type_or_the_shape_of_a_weight_alone_is_merged() -> None:
    dense = T5DenseActDense(T5Config(d_model=4, d_ff=8))
    before = dense.wo.weight.clone()
    assert torch.allclose(merge(dense, "wo"), before + 1.0)


def two_towers() -> Any:
    """Layers of a text and a picture tower, named as open_clip names them."""
    return torch.nn.ModuleDict(
        {"fc": torch.nn.Linear(2, 2), "visual": torch.nn.ModuleDict({"fc": torch.nn.Linear(2, 2)})}
    )


@pytest.mark.parametrize("chosen", ["target_modules", "exclude_modules"])
def test_an_expression_chooses_whole_names_as_in_peft_and_no_name_that_ends_so(chosen: str) -> None:
    model = two_towers()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    settings = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["fc"], chosen: "fc"}
    own, other = ("fc", "visual.fc") if chosen == "target_modules" else ("visual.fc", "fc")

    def update(name: str) -> dict[str, torch.Tensor]:
        layer = f"base_model.model.{name}"
        return {f"{layer}.lora_A.weight": torch.ones(1, 2), f"{layer}.lora_B.weight": torch.ones(2, 1)}

    with pytest.raises(ModelError, match="leaves out, or makes up"):
        merge_by_peft(model.eval(), read_peft_settings(settings, "adapter"), update(own) | update(other), "adapter")
    model = two_towers()
    model.load_state_dict(before)
    merge_by_peft(model.eval(), read_peft_settings(settings, "adapter"), update(own), "adapter")
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed == {f"{own}.weight"}
