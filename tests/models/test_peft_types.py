"""Adapters of every type that peft merges answer as peft computes them, or are refused by name."""

from __future__ import annotations

import io
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from classifier_world import save_classifier
from model_world import Pictures
from nightly import some
from PIL import Image
from safetensors.torch import load_file, save_file

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer
from fairgate.models.checkpoints.peft_merge import MERGED

pytestmark = pytest.mark.filterwarnings("ignore")  # peft asks transformers by names that it is about to drop
LAYERS = ["q_proj", "v_proj"]
TYPES: dict[str, dict[str, Any]] = {
    "LORA": {"r": 4, "use_dora": True},
    "LOHA": {"r": 4, "alpha": 6},
    "LOKR": {"r": 4, "alpha": 6, "decompose_both": True, "rank_pattern": {"q_proj": 2}},
    "OFT": {"r": 0, "oft_block_size": 4},
    "IA3": {"target_modules": ["q_proj", "fc1"], "feedforward_modules": ["fc1"]},
    "ADALORA": {"init_r": 4, "target_r": 2, "total_step": 10},
    "C3A": {"block_size": 4},
    "DELORA": {"r": 4},
    "FOURIERFT": {"n_frequency": 20, "random_loc_seed": 99},
    "HRA": {"r": 4},
    "LN_TUNING": {"target_modules": ["layernorm_before", "layernorm_after"]},
    "MISS": {"r": 4},
    "RANDLORA": {"r": 4},
    "SHIRA": {"r": 2},
    "VBLORA": {"r": 4, "num_vectors": 8, "vector_length": 4, "topk": 2},
    "VERA": {"r": 4, "projection_prng_key": 5},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classifier("vit", tmp_path_factory.mktemp("base") / "vit")


def adapted(base: Path, folder: Path, kind: str, **settings: Any) -> Any:
    """The base with an adapter of peft in it, not merged; saved into a folder."""
    import transformers
    from peft import PeftType, get_peft_model
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    model = transformers.AutoModelForImageClassification.from_pretrained(base)
    config: Any = PEFT_TYPE_TO_CONFIG_MAPPING[PeftType(kind)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        made: Any = get_peft_model(model, config(**{"target_modules": LAYERS, **TYPES.get(kind, {}), **settings}))
        for name, parameter in made.named_parameters():
            if parameter.requires_grad and "modules_to_save" not in name:
                parameter.data.add_(torch.randn_like(parameter) * 0.2)
            elif parameter.requires_grad:
                torch.nn.init.normal_(parameter)
    made.save_pretrained(folder)
    return made.eval()


def logits(model: Any, base: Path, pictures: Pictures) -> Any:
    import transformers

    images = [Image.open(io.BytesIO(blob)).convert("RGB") for blob in pictures.blobs]
    prepare: Any = transformers.AutoImageProcessor.from_pretrained(base)
    with torch.no_grad():
        return model(**prepare(images=images, return_tensors="pt")).logits.double().numpy()


def scorer(adapter: Path, base: Path, pictures: Pictures) -> Any:
    return open_scorer(f"peft:{adapter}?base=classifier:{base}", pictures, device="cpu", batch_size=8)


def test_every_type_that_is_merged_by_peft_is_tried() -> None:
    assert set(TYPES) == MERGED


@pytest.mark.parametrize("kind", some(list(TYPES), 4))
def test_an_adapter_answers_as_peft_computes_it_not_merged(
    kind: str, base: Path, tmp_path: Path, pictures: Pictures
) -> None:
    expected = logits(adapted(base, tmp_path, kind, modules_to_save=["classifier"]), base, pictures)
    found = scorer(tmp_path, base, pictures)
    np.testing.assert_allclose(found.outputs(), expected, atol=1e-5 * max(1.0, abs(expected).max()))
    without = logits(adapted(base, tmp_path / "plain", kind), base, pictures)
    plain = open_scorer(f"classifier:{base}", pictures, device="cpu", batch_size=8).outputs()
    assert np.abs(without - plain).max() > 1e-3 * np.abs(plain).max()  # it does something
    assert f"an adapter ({'LoRA, rank 4' if kind == 'LORA' else kind}) is merged into" in found.note


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "prompts": ({"peft_type": "PROMPT_TUNING"}, "of type 'PROMPT_TUNING', which fairgate does not merge"),
    "code that peft would compile": ({"peft_type": "BOFT"}, "of type 'BOFT', which fairgate does not merge"),
    "adapters by their paths": ({"peft_type": "XLORA"}, "of type 'XLORA', which fairgate does not merge"),
    "a type of its own": ({"peft_type": ["LOHA"]}, "which fairgate does not merge"),
    "an expression as a name": ({"target_modules": ["(.*)*z"]}, "does not give to peft"),
    "an expression for blocks": ({"layers_pattern": ["(a+)+"], "layers_to_transform": [0]}, "does not give to peft"),
    "a path": ({"init_weights": "/etc/passwd"}, "does not give to peft"),
    "a group": ({"runtime_config": {"file": "x"}}, "does not give to peft"),
    "a giant": ({"r": 10**9}, "does not give to peft"),
    "no such layer": ({"target_modules": ["nowhere"]}, "is not merged by peft"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_config_that_reaches_out_or_does_not_fit_is_refused(
    case: str, base: Path, loha: Path, tmp_path: Path, pictures: Pictures
) -> None:
    changes, problem = REFUSED[case]
    for path in loha.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    edit(tmp_path, **changes)
    with pytest.raises(ModelError, match=problem):
        scorer(tmp_path, base, pictures).outputs()


@pytest.fixture(scope="module")
def loha(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loha")
    adapted(base, folder, "LOHA")
    return folder


def test_tensors_that_peft_would_leave_out_or_make_up_are_refused(
    base: Path, loha: Path, tmp_path: Path, pictures: Pictures
) -> None:
    tensors = load_file(loha / "adapter_model.safetensors")
    name = next(iter(tensors))
    (tmp_path / "adapter_config.json").write_bytes((loha / "adapter_config.json").read_bytes())
    stray = {"base_model.model.vit.layernorm.weight": torch.zeros(16)}
    lost = {key: value for key, value in tensors.items() if key != name}
    for held in (
        tensors | stray,
        lost,
        tensors | {name: torch.zeros(3, 3)},
        tensors | {name: tensors[name] * torch.nan},
    ):
        save_file(held, tmp_path / "adapter_model.safetensors")
        with pytest.raises(ModelError, match=r"peft leaves out, or makes up|RuntimeError|NaN or infinite"):
            scorer(tmp_path, base, pictures).outputs()


def test_a_layer_that_peft_merges_to_other_numbers_is_refused(
    base: Path, loha: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peft.tuners.lycoris_utils import LycorisLayer

    def merged_wrongly(self: Any, **_: Any) -> None:
        self.get_base_layer().weight.data += 0.1
        self.merged_adapters.append("default")

    monkeypatch.setattr(LycorisLayer, "merge", merged_wrongly)
    with pytest.raises(ModelError, match="q_proj' gives other numbers when it is merged"):
        scorer(loha, base, pictures).outputs()


def test_the_version_of_peft_is_part_of_what_names_the_numbers_of_an_adapter(
    base: Path, loha: Path, pictures: Pictures
) -> None:
    plain = open_scorer(f"classifier:{base}", pictures, device="cpu", batch_size=8)
    libraries = [model.checkpoint.identity["libraries"] for model in (scorer(loha, base, pictures), plain)]
    assert [each.get("peft") for each in libraries] == [version("peft"), None]
