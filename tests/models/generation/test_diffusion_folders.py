"""Which diffusion folders are loaded, and which are refused: whole, safetensors, without code, and fit for the role."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusion_world import difference, hole, picture, repaint
from safetensors.torch import load_file, save_file

from fairgate.ground.errors import ModelError
from fairgate.models.generation import Sampling, open_model

pytestmark = pytest.mark.xdist_group("diffusion")

UNET, TEXT = Path("unet/diffusion_pytorch_model.safetensors"), Path("text_encoder/model.safetensors")
VAE = Path("vae/diffusion_pytorch_model.safetensors")
HOW = Sampling(steps=2, guidance=5.0)


@pytest.fixture
def folder(pipelines: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(pipelines["sd1"], tmp_path / "sd1"))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def painted(folder: Path, options: str = "") -> Any:
    return open_model("painter", f"hf:{folder}{options}").paint(["a photo of doctor"], [1], HOW)


def test_older_checkpoints_load_as_the_hub_has_them(folder: Path, tiny: Any) -> None:
    """Text encoders under `text_model.` with position ids, VAEs with attention named query, key, value, proj_attn."""
    old = {".to_q.": ".query.", ".to_k.": ".key.", ".to_v.": ".value.", ".to_out.0.": ".proj_attn."}

    def renamed(name: str) -> str:
        for new, was in old.items():
            name = name.replace(new, was)
        return name

    rewrite(folder / VAE, lambda state: {renamed(name): value for name, value in state.items()})
    ids = {"text_model.embeddings.position_ids": torch.arange(16)[None]}
    prefixed = {True: "", False: "text_model."}
    rewrite(
        folder / TEXT,
        lambda state: {prefixed[name.startswith("text_model.")] + name: value for name, value in state.items()} | ids,
    )
    assert difference(painted(folder), tiny("painter", "sd1").paint(["a photo of doctor"], [1], HOW)) == 0


def test_shards_and_variants_of_weights_load_as_the_whole_does(folder: Path, tiny: Any) -> None:
    expected = tiny("painter", "sd1").paint(["a photo of doctor"], [1], HOW)
    whole = load_file(folder / UNET)
    names = sorted(whole)
    halves = {"part-1.safetensors": names[::2], "part-2.safetensors": names[1::2]}
    for shard, members in halves.items():
        save_file({name: whole[name] for name in members}, folder / "unet" / shard, metadata={"format": "pt"})
    weight_map = {name: shard for shard, members in halves.items() for name in members}
    index = folder / "unet/diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    (folder / UNET).unlink()
    assert difference(painted(folder), expected) == 0
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, f"../{UNET.name}")}))
    with pytest.raises(ModelError, match="does not name safetensors shards of this folder"):
        painted(folder)
    index.write_text(json.dumps({"weight_map": weight_map}))
    (folder / "unet/part-2.safetensors").unlink()
    with pytest.raises(ModelError, match="the file does not exist"):
        painted(folder)
    index.unlink()
    save_file(whole, folder / UNET, metadata={"format": "pt"})
    for path in (UNET, TEXT, VAE):
        (folder / path).rename((folder / path).with_suffix(".fp16.safetensors"))
    assert difference(painted(folder), expected) == 0
    save_file(whole, (folder / UNET).with_suffix(".ema.safetensors"), metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"holds no .*model\.safetensors") as caught:
        painted(folder)
    assert "leave one of diffusion_pytorch_model.ema.safetensors" in str(caught.value.remedy)


@pytest.mark.parametrize("variant", ["", ".fp16"])
@pytest.mark.parametrize("path", [UNET, TEXT], ids=["unet", "text_encoder"])
def test_what_is_loaded_is_what_was_hashed_where_weights_lie_side_by_side(
    folder: Path, tiny: Any, path: Path, variant: str
) -> None:
    """Of whole weights and shards, one is hashed; the other, which the library may prefer, is spoiled."""
    expected = tiny("painter", "sd1").paint(["a photo of doctor"], [1], HOW)
    if variant:
        for other in (UNET, TEXT, VAE):
            (folder / other).rename((folder / other).with_suffix(".fp16.safetensors"))
    whole = (folder / path).with_suffix(f"{variant}.safetensors")
    shard = whole.with_name(f"{path.stem}{variant}-00001-of-00001.safetensors")
    state = load_file(whole)
    save_file(state, shard, metadata={"format": "pt"})
    names = {False: f"{path.stem}.safetensors.index.json", True: f"{path.stem}.safetensors.index.fp16.json"}
    index = whole.with_name(names[bool(variant)])
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(state, shard.name)}))
    rewrite(shard if variant else whole, lambda state: {name: value + 0.1 for name, value in state.items()})
    assert difference(painted(folder), expected) == 0


@pytest.mark.parametrize("factor", [0, -0.18215, float("nan"), float("inf"), "1"])
def test_a_vae_factor_that_leaves_no_picture_is_refused(folder: Path, factor: Any) -> None:
    edit(folder / "vae/config.json", scaling_factor=factor)
    with pytest.raises(ModelError, match=r"do not fit a .*scaling_factor"):
        painted(folder)


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("unet/config.json", {"sample_size": 20_000}),
        ("unet/config.json", {"sample_size": [8, 20_000]}),
        ("scheduler/scheduler_config.json", {"num_train_timesteps": 10**10}),
    ],
)
def test_a_config_that_would_exhaust_the_memory_is_refused(folder: Path, path: str, changes: dict[str, Any]) -> None:
    edit(folder / path, **changes)
    with pytest.raises(ModelError, match=f"the config sets '{next(iter(changes))}' to .*; at most"):
        painted(folder)


def test_another_vae_stands_in_for_the_pipelines_own(folder: Path, tmp_path: Path, tiny: Any) -> None:
    """Paper 3 decodes with a VAE of its own."""
    expected = tiny("painter", "sd1").paint(["a photo of doctor"], [1], HOW)
    shutil.copytree(folder / "vae", tmp_path / "lone")
    rewrite(tmp_path / "lone" / VAE.name, lambda state: {name: value * 1.1 for name, value in state.items()})
    other = open_model("painter", f"hf:{folder}?vae={tmp_path / 'lone'}")
    assert difference(other.paint(["a photo of doctor"], [1], HOW), expected) > 1
    assert other.fingerprint != tiny("painter", "sd1").fingerprint
    again = open_model("painter", f"hf:{folder}?vae={folder}")
    assert again.fingerprint == tiny("painter", "sd1").fingerprint


def test_the_fingerprint_is_of_the_files_wherever_they_lie(folder: Path, tiny: Any) -> None:
    original = tiny("painter", "sd1").fingerprint
    moved = open_model("painter", "hf:sd1", base=folder.parent)
    assert (moved.uri, moved.fingerprint) == ("hf:sd1", original)
    assert open_model("inpainter", f"hf:{folder}").fingerprint == original
    rewrite(folder / UNET, lambda state: {name: value + 1e-3 for name, value in state.items()})
    changed = open_model("painter", f"hf:{folder}").fingerprint
    assert changed != original
    edit(folder / "scheduler/scheduler_config.json", beta_end=0.02)
    assert open_model("painter", f"hf:{folder}").fingerprint not in {original, changed}


def test_the_refiner_shares_what_it_has_in_common_with_its_base(tiny: Any) -> None:
    refined = tiny("painter", "sdxl?refiner=refiner")
    assert refined.model.refiner.vae is refined.model.vae
    assert refined.model.refiner.spent is refined.model.spent
    assert refined.fingerprint not in {tiny("painter", "sdxl").fingerprint, refined.model.refiner.fingerprint}


@pytest.mark.parametrize("uri", ["sdxl?refiner=sdxl-refiner", "sd15?vae=stabilityai/sd-vae-ft-mse"])
def test_short_names_stand_for_hub_ids_with_options_too(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="nor a model in the hub's cache") as caught:
        open_model("painter", uri, base=tmp_path)
    assert "hf download stab" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("role", "kind", "problem"),
    [
        ("painter", "refiner", "SDXL's refiner, which cannot paint"),
        ("painter", "sd_inpaint", "with 9 UNet channels, which cannot paint"),
        ("painter", "pix2pix", "a StableDiffusionInstructPix2PixPipeline"),
        ("inpainter", "pix2pix", "cannot inpaint"),
        ("editor", "sd1", "with 4 UNet channels, which cannot edit"),
        ("painter", "sd1?refiner=refiner", "cannot refine"),
        ("painter", "sdxl?refiner=sdxl", "cannot refine"),
        ("painter", "sd1?refinery=refiner", "an option that is unknown or empty: .refinery"),
        ("painter", "sd1?refiner=", "an option that is unknown or empty"),
        ("painter", "sd1?fp16", "an option that is unknown or empty"),
        ("painter", "sd1/unet", "holds no model_index.json"),
        ("painter", "sd", "the model folder does not exist"),
    ],
)
def test_a_model_that_cannot_play_the_role_is_an_error(
    role: Any, kind: str, problem: str, pipelines: dict[str, Path]
) -> None:
    base = pipelines["sd1"].parent
    kind = kind.replace("refiner=", f"refiner={base}/") if "refiner=refiner" in kind or "=sdxl" in kind else kind
    with pytest.raises(ModelError, match=problem) as caught:
        open_model(role, f"hf:{kind}", base=base)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("model_index.json", {"_class_name": ["pipeline", "Mine"]}, "code of the model's own"),
        ("model_index.json", {"unet": ["my_unet", "MyUNet"]}, "'unet' is code of the model's own"),
        ("model_index.json", {"unet": [["diffusers"], "UNet2DConditionModel"]}, "'unet' is code of the model's own"),
        ("model_index.json", {"unet": ["diffusers", {"a": 1}]}, "'unet' is code of the model's own"),
        ("model_index.json", {"unet": ["diffusers", "SD3Transformer2DModel"]}, "'unet' is a SD3Transformer2DModel"),
        ("model_index.json", {"tokenizer": ["transformers", "T5Tokenizer"]}, "'tokenizer' is a T5Tokenizer"),
        ("model_index.json", {"scheduler": ["diffusers", "MyScheduler"]}, "no scheduler 'MyScheduler'"),
        ("model_index.json", {"_class_name": "FluxPipeline"}, "is a FluxPipeline"),
        ("model_index.json", {"vae": [None, None]}, "lacks vae"),
        ("unet/config.json", {"in_channels": [4]}, r"with \[4\] UNet channels"),
        ("unet/config.json", {"auto_map": {"AutoModel": "mine.Model"}}, "code of its own"),
        ("unet/config.json", {"addition_embed_type": "text_time"}, "cannot be loaded|does not fit"),
        ("unet/config.json", {"block_out_channels": [160000, 320000]}, "parameters, and the weights"),
        ("unet/config.json", {"block_out_channels": [8, 32]}, "cannot be loaded|does not fit|other shapes"),
        ("unet/config.json", {"class_embed_type": "identity"}, r"do not fit a .*\(class_embed_type\)"),
        ("unet/config.json", {"sample_size": None}, "a picture of 0 pixels"),
        ("unet/config.json", {"sample_size": 8192}, "8192 at most"),
        ("vae/config.json", None, "the file does not exist"),
        ("tokenizer/tokenizer.json", None, "holds no tokenizer"),
        ("tokenizer/tokenizer_config.json", {"model_max_length": "many"}, "cannot be loaded"),
        ("text_encoder/config.json", {"transformers_weights": "other.safetensors"}, "other weights"),
        ("scheduler/scheduler_config.json", {"beta_schedule": "steep"}, "cannot have a PNDMScheduler"),
    ],
)
def test_a_folder_that_cannot_be_trusted_or_read_is_an_error(
    name: str, change: dict[str, Any] | None, problem: str, folder: Path
) -> None:
    if change is None:
        (folder / name).unlink()
    else:
        edit(folder / name, **change)
    with pytest.raises(ModelError, match=problem) as caught:
        painted(folder)
    assert caught.value.remedy


def test_weights_that_are_pickled_cut_short_or_do_not_fit_are_refused(folder: Path) -> None:
    def refused(problem: str) -> None:
        with pytest.raises(ModelError, match=problem) as caught:
            painted(folder)
        assert str(folder) in str(caught.value.where)

    whole = (folder / UNET).read_bytes()
    (folder / UNET).write_bytes(whole[:-100])
    refused("truncated or damaged")
    (folder / UNET).write_bytes(whole)
    rewrite(folder / UNET, lambda state: {**state, "conv_in.bias": torch.full((16,), float("nan"))})
    refused("NaN or infinite weights: conv_in.bias")
    (folder / UNET).write_bytes(whole)
    rewrite(folder / UNET, lambda state: {name: value for name, value in state.items() if name != "conv_in.bias"})
    refused("1 tensors are missing: conv_in.bias")
    (folder / UNET).write_bytes(whole)
    rewrite(folder / UNET, lambda state: {**state, "more": torch.zeros(2)})
    refused("1 are not of this architecture: more")
    (folder / UNET).unlink()
    (folder / "unet/diffusion_pytorch_model.bin").write_bytes(b"pickle")
    refused(r"only pickled weights \(diffusion_pytorch_model.bin\), which are refused")


def test_parts_of_two_pipelines_are_refused_and_what_fails_while_painting_names_the_model(
    folder: Path, pipelines: dict[str, Path], tmp_path: Path
) -> None:
    xl = Path(shutil.copytree(pipelines["sdxl"], tmp_path / "sdxl"))
    shutil.rmtree(folder / "unet")
    shutil.copytree(pipelines["pix2pix"] / "unet", folder / "unet")
    with pytest.raises(ModelError, match="8 UNet channels"):
        painted(folder)
    edit(folder / "unet/config.json", in_channels=4)
    with pytest.raises(ModelError, match="other shapes"):
        painted(folder)
    edit(xl / "model_index.json", text_encoder=[None, None], tokenizer=[None, None])
    with pytest.raises(ModelError, match="cross_attention_dim"):
        painted(xl)
    edit(xl / "model_index.json", text_encoder=["transformers", "CLIPTextModel"], requires_aesthetics_score=True)
    edit(xl / "model_index.json", tokenizer=["transformers", "PreTrainedTokenizerFast"])
    with pytest.raises(ModelError, match="cannot inpaint") as caught:
        repaint(open_model("inpainter", f"hf:{xl}"), picture(), hole(), ["a photo"], 1, Sampling(steps=2, guidance=5.0))
    assert caught.value.where == f"hf:{xl}"


def test_an_sdxl_whose_second_text_encoder_has_no_pooled_output_is_refused(
    pipelines: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(pipelines["sdxl"], tmp_path / "sdxl"))
    shutil.rmtree(folder / "text_encoder_2")
    shutil.copytree(folder / "text_encoder", folder / "text_encoder_2")
    edit(folder / "model_index.json", text_encoder_2=["transformers", "CLIPTextModel"])
    with pytest.raises(ModelError, match="'text_encoder_2' is a CLIPTextModel"):
        painted(folder)


def test_what_an_index_adds_reaches_no_pipeline(folder: Path) -> None:
    before = painted(folder)
    edit(folder / "model_index.json", image_encoder="another", requires_safety_checker=True)
    assert difference(painted(folder), before) == 0


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / UNET).rename(tmp_path / "elsewhere.safetensors")
    (folder / UNET).symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(ModelError, match="leads outside"):
        painted(folder)


def test_nothing_is_written_on_standard_error(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    painted(folder)
    captured = capfd.readouterr()
    assert captured.err == ""
    assert captured.out == ""
