"""Shared attention is exactly what its plain, published form computes, at a fraction of the work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from nightly import some
from plain_sharing import PlainAttention, paint_set, plain_latents
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from fairgate.ground.errors import DeviceError, ModelError
from fairgate.models.generation import Sampling
from fairgate.models.generation.attention_sharing import (
    BaseMember,
    Words,
    align_tokens,
    shared_attention,
    wide_product,
)
from fairgate.models.generation.diffusion.pipeline import joined
from fairgate.models.generation.set_painting import Attempt, SetPainting

CAPTIONS = [
    "a photo of man doctor",
    "a photo of woman doctor",
    "a photo of more feminine doctor",
    "photo of face nurse",
]
PHRASES = ["more feminine"]
STEPS = 5
HOW = Sampling(steps=STEPS, guidance=7.5, scheduler="euler_ancestral")
TOLERANCE = 1e-5


@pytest.fixture(scope="module", params=["sd1", "sd2", "sdxl"])
def parts(request: pytest.FixtureRequest, tiny: Any) -> Any:
    return tiny("painter", request.param).model


@pytest.fixture(scope="module")
def sd1(tiny: Any) -> Any:
    return tiny("painter", "sd1").model


def latents(parts: Any, attempt: Attempt, mode: str, rows: int, captions: list[str] = CAPTIONS) -> torch.Tensor:
    painting = SetPainting(parts, captions, HOW, mode=mode, rows=rows, phrases=PHRASES)  # type: ignore[arg-type]
    canvases = painting.start([attempt])
    painting.advance(canvases)
    return canvases[0].latents


def identity(length: int = 16) -> torch.Tensor:
    return torch.eye(length)


def maps_by_hand() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Of CAPTIONS: [BOS] a photo of man doctor [EOS] ..., by hand, as base tokens x tokens."""
    none = torch.zeros(16)
    wider = torch.zeros(16, 16)  # man (4) stands for two tokens, all after it moves by one, and the last ones share
    wider[range(4), range(4)] = 1
    wider[4, 4] = wider[4, 5] = 0.5
    wider[range(5, 15), range(6, 16)] = 1
    wider[15, 15] = 1
    shorter = torch.zeros(16, 16)  # "a" is gone, and there is one end token more
    shorter[0, 0] = 1
    shorter[range(2, 15), range(1, 14)] = 1
    shorter[15, 14] = shorter[15, 15] = 0.5
    return [(identity(), none), (identity(), none), (wider, none), (shorter, none)]


def require_equal(ours: torch.Tensor, plain: torch.Tensor) -> None:
    """Latents of a random UNet reach 20 and more: rounding grows with them."""
    assert (ours - plain).abs().max() <= TOLERANCE * max(1.0, float(plain.abs().max()))


@pytest.mark.parametrize(("share", "guidance"), some([(0.55, 7.5), (0.0, 7.5), (1.0, 7.5), (0.55, 1.0)], few=2))
@pytest.mark.parametrize("mode", ["self", "cross"])
def test_shared_attention_is_the_published_one(parts: Any, mode: str, share: float, guidance: float) -> None:
    attempt = Attempt(seed=3, guidance=guidance, share=share)
    plain = plain_latents(parts, CAPTIONS, attempt, STEPS, mode, maps_by_hand())
    for rows in (64, 4, 1):  # whole, in pieces with and without other members, member by member
        require_equal(latents(parts, attempt, mode, rows), plain)


@pytest.mark.parametrize("mode", ["self", "cross"])
def test_one_pass_differs_by_rounding_alone(sd1: Any, mode: str) -> None:
    members, maps, noise = len(CAPTIONS), maps_by_hand(), torch.randn(8, 4, 8, 8, generator=torch.Generator())
    told, time = joined([sd1.embed_negative(None, members), sd1.embed_prompts(CAPTIONS)]), torch.tensor(500)
    attention, before = PlainAttention(mode, members, maps), sd1.unet.attn_processors
    attention.on = True
    sd1.unet.set_attn_processor(attention)
    plain = sd1.predict(noise, time, told)
    sd1.unet.set_attn_processor(before)
    words = Words(*(torch.stack(parts) for parts in zip(*maps, strict=True)), keeps_own=False)
    with shared_attention(sd1.unet, mode) as sharing:  # type: ignore[arg-type]
        sharing.groups, sharing.free = 2, 1 if mode == "cross" else 0
        sharing.words = words
        ours = sd1.predict(noise, time, told)
    assert (ours - plain).abs().max() <= TOLERANCE
    assert (sd1.predict(noise, time, told) - plain).abs().max() > 10 * TOLERANCE


def test_a_word_that_the_base_lacks_keeps_its_own_map(sd1: Any) -> None:
    captions, attempt = ["photo of man", "photo of more man"], Attempt(0, 7.5, 1.0)
    moved, own = torch.zeros(16, 16), torch.zeros(16)
    moved[range(3), range(3)] = 1
    own[3] = 1
    moved[range(3, 15), range(4, 16)] = 1
    moved[15, 15] = 1
    plain = plain_latents(sd1, captions, attempt, STEPS, "cross", [(identity(), torch.zeros(16)), (moved, own)])
    require_equal(latents(sd1, attempt, "cross", 64, captions), plain)
    require_equal(latents(sd1, attempt, "cross", 2, captions), plain)


def test_sharing_changes_pictures_and_members_start_alike(sd1: Any) -> None:
    shared, alone = (latents(sd1, Attempt(3, 7.5, share), "self", 64) for share in (1.0, 0.0))
    assert (shared - alone).abs().max() > 100 * TOLERANCE
    start = SetPainting(sd1, CAPTIONS, HOW).start([Attempt(3, 7.5, 1.0)])[0].latents
    assert all(torch.equal(start[0], member) for member in start)


def test_attempts_of_one_batch_are_as_if_alone(sd1: Any) -> None:
    attempts = [Attempt(1, 9.0, 0.3), Attempt(2, 14.0, 0.8), Attempt(3, 7.5, 0.0), Attempt(4, 0.5, 0.5)]
    together = paint_set(sd1, CAPTIONS, attempts, HOW, rows=24)
    for attempt, pictures in zip(attempts, together, strict=True):
        [alone] = paint_set(sd1, CAPTIONS, [attempt], HOW)
        for one, other in zip(pictures, alone, strict=True):
            assert np.abs(np.asarray(one, int) - np.asarray(other, int)).max() <= 1


@pytest.mark.parametrize(("guidance", "halves"), [(7.5, 2), (1.0, 1)])
@pytest.mark.parametrize("rows", [64, 4, 1])
def test_a_member_costs_one_evaluation_a_step_and_half_however_rows_are_cut(
    sd1: Any, guidance: float, halves: int, rows: int
) -> None:
    before = sd1.spent["unet"]
    paint_set(sd1, CAPTIONS, [Attempt(1, guidance, 0.5)] * 2, HOW, rows=rows)
    assert sd1.spent["unet"] - before == 2 * len(CAPTIONS) * STEPS * halves


def test_passes_grow_smaller_where_memory_runs_out(sd1: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = Attempt(3, 7.5, 0.55)
    whole, before = latents(sd1, attempt, "self", 64), sd1.spent["unet"]
    predict = sd1.predict

    def small(noisy: torch.Tensor, *told: Any) -> torch.Tensor:
        if len(noisy) > fits:
            sd1.spent["unet"] += len(noisy)
            raise torch.OutOfMemoryError("no room")
        return predict(noisy, *told)

    fits = 4
    monkeypatch.setattr(sd1, "predict", small)
    require_equal(latents(sd1, attempt, "self", 64), whole)
    assert sd1.spent["unet"] - before == len(CAPTIONS) * STEPS * 2
    fits = 1
    with pytest.raises(DeviceError, match="too little free memory"):
        latents(sd1, attempt, "self", 64)


def test_a_stop_half_way_changes_nothing(sd1: Any) -> None:
    attempts = [Attempt(1, 9.0, 0.3), Attempt(2, 14.0, 0.8)]
    painting = SetPainting(sd1, CAPTIONS, HOW)
    whole, cut = painting.start(attempts), painting.start(attempts)
    painting.advance(whole)
    painting.advance(cut, until=2)
    assert all(canvas.expected is not None for canvas in cut)
    assert len(painting.pictures(cut[0])) == len(CAPTIONS)
    painting.advance(cut[1:])
    assert torch.allclose(cut[1].latents, whole[1].latents, rtol=0, atol=TOLERANCE)


def test_a_scheduler_that_looks_back_is_not_cut_in_two(sd1: Any) -> None:
    painting = SetPainting(sd1, CAPTIONS, Sampling(steps=4, guidance=7.5, scheduler="dpm++"))
    with pytest.raises(ModelError) as caught:
        painting.advance(painting.start([Attempt(1, 9.0, 0.3)]), until=2)
    assert "euler_ancestral" in str(caught.value.remedy)


def test_blocks_of_queries_change_nothing() -> None:
    torch.manual_seed(0)
    asked = BaseMember(torch.randn(2, 3, 40, 8), torch.randn(2, 3, 40, 8))
    values = torch.randn(2, 5, 3, 40, 8)
    whole = wide_product(asked, values, 0.3)
    cut = wide_product(asked, values, 0.3, block_bytes=2 * 3 * 40 * 4 * 7)
    each = torch.softmax(asked.query @ asked.key.transpose(-1, -2) * 0.3, -1)[:, None] @ values
    assert torch.allclose(whole, each, atol=1e-6)
    assert torch.allclose(cut, each, atol=1e-6)


def test_half_precision_scores_do_not_overflow() -> None:
    asked = BaseMember(torch.full((1, 1, 4, 8), 120.0).bfloat16(), torch.full((1, 1, 4, 8), 120.0).bfloat16())
    out = wide_product(asked, torch.ones(1, 2, 1, 4, 8).bfloat16(), 8**-0.5)
    assert torch.equal(out.float(), torch.ones(1, 2, 1, 4, 8))


@pytest.mark.parametrize("features", [40, 64])  # a scale that half precision rounds, and one that it does not
@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"))],
)
def test_shared_attention_in_half_precision_is_as_exact_as_fused_attention(device: str, features: int) -> None:
    torch.manual_seed(0)
    query, key, values = (torch.randn(1, 2, 128, features) for _ in range(3))
    half = [part.to(device, torch.bfloat16) for part in (3 * query, 3 * key, values)]
    exact = scaled_dot_product_attention(*(part.float() for part in half))
    fused = scaled_dot_product_attention(*half).float()
    shared = wide_product(BaseMember(half[0], half[1]), half[2][:, None], features**-0.5)[:, 0].float()
    assert (shared - exact).norm() <= 2 * (fused - exact).norm()


class NothingRead(TorchDispatchMode):
    """Reading a number out of a tensor, which makes a GPU wait, is an error."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.name() not in {"aten::is_nonzero", "aten::item", "aten::_local_scalar_dense"}
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("captions", [["photo of man", "photo of more man"], ["photo of man", "photo of woman"]])
def test_sharing_reads_nothing_back_from_the_device(sd1: Any, captions: list[str]) -> None:
    noise, time = torch.randn(2, 4, 8, 8, generator=torch.Generator()), torch.tensor(500)
    told = sd1.embed_prompts(captions)
    aligned = [align_tokens(captions[0], caption, sd1.tokenizers[0], 16) for caption in captions]
    words = Words.of(aligned, sd1.device)
    with shared_attention(sd1.unet, "cross") as sharing, NothingRead():
        sharing.groups, sharing.words = 1, words
        sd1.predict(noise, time, told)


def test_a_refiner_is_refused_as_it_would_not_be_run(sd1: Any, tiny: Any) -> None:
    refined = tiny("painter", "sdxl?refiner=refiner").model
    for parts, how in [(sd1, replace(HOW, refine_from=0.8)), (refined, HOW)]:
        with pytest.raises(ModelError, match="no refiner") as caught:
            paint_set(parts, CAPTIONS, [Attempt(1, 7.5, 0.5)], how)
        assert "refine_from" in str(caught.value.remedy)


def test_layers_are_as_they_were_after_sharing(sd1: Any) -> None:
    before = dict(sd1.unet.attn_processors)
    with shared_attention(sd1.unet, "self"):
        assert dict(sd1.unet.attn_processors) != before
    assert dict(sd1.unet.attn_processors) == before


def test_unknown_modes_and_layers_are_refused(sd1: Any) -> None:
    with pytest.raises(ModelError, match="no sharing mode"), shared_attention(sd1.unet, "both"):  # type: ignore[arg-type]
        pass
    layer = next(module for module in sd1.unet.modules() if hasattr(module, "set_processor"))
    layer.norm_q = torch.nn.Identity()
    try:
        with pytest.raises(ModelError, match="norm_q"), shared_attention(sd1.unet, "self"):
            pass
    finally:
        layer.norm_q = None
