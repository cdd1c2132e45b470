"""A Stable Diffusion as classifier: errors as a plain loop finds them, shared noise, each error computed once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusion_world import FACTOR, SIDE
from hypothesis import given, settings
from hypothesis import strategies as st
from model_world import Pictures, encoded, picture

from fairgate.ground.errors import DatasetError, ModelError
from fairgate.models import EmbeddingCache, LabelModel, Request, require_capability
from fairgate.models.generation.diffusion.pipeline import Conditioning
from fairgate.models.generation.diffusion_classifier.engine import DenoisingErrors
from fairgate.models.generation.diffusion_classifier.family import DiffusionClassifier, DiffusionFamily
from fairgate.models.generation.diffusion_classifier.sampling import settle, spread_order, timesteps

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "diffusion_classifier.json").read_text())
ADAPTIVE = [case for case in GOLDEN["cases"] if "n_samples" in case]
PROMPTS = ("a photo of a doctor", "a photo of a nurse", "a photo of a chef")


def source(images: int = 4) -> Pictures:
    return Pictures([encoded(picture(seed)) for seed in range(images)])


def classifier(folder: Path, options: str = "samples=4", **more: Any) -> DiffusionClassifier:
    address, images = f"{folder}?{options}", more.pop("source", source())
    request = Request(f"diffusion:{address}", address, images, device="cpu", **more)
    return DiffusionFamily().open(request)


def denoising(model: DiffusionClassifier) -> DenoisingErrors:
    return DenoisingErrors(model._engine(), samples=model.settings.samples, size=model.settings.size)


@pytest.mark.parametrize("case", ADAPTIVE, ids=lambda case: f"{case['n_prompts']}-{case['n_samples']}")
def test_timesteps_are_those_of_the_peers_recorded_runs(case: dict[str, Any]) -> None:
    whole = timesteps(case["n_samples"][-1], case["T"]).tolist()
    for found in case["errors"].values():
        assert set(found["t"]) <= set(whole)  # of an adaptive schedule, strided parts
    if len(case["n_samples"]) == 1:
        assert case["errors"]["0"]["t"] == whole


@pytest.mark.parametrize(
    ("kind", "pipeline"),
    [
        ("sd1", "StableDiffusionPipeline"),
        ("sd2", "StableDiffusionPipeline"),
        ("sdxl", "StableDiffusionXLPipeline"),
    ],
)
def test_errors_are_those_of_a_plain_loop_over_diffusers_parts(
    pipelines: Any, stock: Any, kind: str, pipeline: str
) -> None:
    import diffusers

    model, pipe = classifier(pipelines[kind]), stock(kind, pipeline)
    ours = model.errors(PROMPTS)
    engine = denoising(model)
    noises = diffusers.DDPMScheduler.from_config(pipe.scheduler.config)
    expected = np.zeros((4, 3))
    with torch.inference_mode():
        for image in range(4):
            latents = engine.latents(picture(image).convert("RGB"))
            for column, prompt in enumerate(PROMPTS):
                more = {}
                if kind == "sdxl":
                    text, _, pooled, _ = pipe.encode_prompt(prompt, do_classifier_free_guidance=False)
                    sizes = torch.tensor([[SIDE, SIDE, 0, 0, SIDE, SIDE]])
                    more = {"added_cond_kwargs": {"text_embeds": pooled, "time_ids": sizes}}
                else:
                    text = pipe.encode_prompt(prompt, "cpu", 1, False)[0]
                errors = []
                for sample, t in enumerate((125, 375, 625, 875)):
                    noise = engine.noise(f"{image // 2:04d}")[sample : sample + 1]
                    assert noise.shape == (1, 4, SIDE // FACTOR, SIDE // FACTOR)
                    time = torch.tensor([t])
                    noised = noises.add_noise(latents, noise, time)
                    found = pipe.unet(noised, time, encoder_hidden_states=text, **more).sample
                    wanted = noises.get_velocity(latents, noise, time) if kind == "sd2" else noise
                    error = (found - wanted).square().sum()
                    if kind == "sd2":  # the noise that a velocity stands for is off by sqrt(alpha) times as much
                        error = error * noises.alphas_cumprod[t]
                    errors.append(float(error))
                expected[image, column] = np.mean(errors)
    np.testing.assert_allclose(ours, expected, rtol=2e-4)
    log_p = model.log_probabilities(PROMPTS)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0)
    assert np.array_equal(log_p.argmax(axis=1), expected.argmin(axis=1))


def test_an_error_is_computed_once_whatever_compares_it(pipelines: Any) -> None:
    model = classifier(pipelines["sd1"])
    model.log_probabilities(PROMPTS)
    assert model._engine().spent["unet"] == 4 * 4 * 3
    model.log_probabilities(PROMPTS[::-1])
    model.pair_choices(PROMPTS[:1], PROMPTS[1:])
    assert model._engine().spent["unet"] == 4 * 4 * 3
    model.log_probabilities([PROMPTS[0], "a man"])
    assert model._engine().spent["unet"] == 4 * 4 * 4


def test_a_second_run_reads_the_cache_and_loads_nothing(pipelines: Any, tmp_path: Path) -> None:
    first = classifier(pipelines["sd1"], cache=EmbeddingCache(tmp_path))
    again = classifier(pipelines["sd1"], cache=EmbeddingCache(tmp_path))
    other = classifier(pipelines["sd1"], "samples=2", cache=EmbeddingCache(tmp_path))
    assert np.array_equal(first.errors(PROMPTS), again.errors(PROMPTS))
    assert again._network is None
    assert not np.array_equal(other.errors(PROMPTS), first.errors(PROMPTS))
    assert other.fingerprint != first.fingerprint  # answers of other samples are another model's
    assert other.preprocessing != first.preprocessing


def test_of_a_release_that_shares_pictures_only_the_new_ones_and_those_of_other_sets_are_denoised(
    pipelines: Any, tmp_path: Path
) -> None:
    cache, old = EmbeddingCache(tmp_path), source()
    before = classifier(pipelines["sd1"], cache=cache, source=old).errors(PROMPTS)
    new = Pictures([*old.blobs, encoded(picture(9))])
    later = classifier(pipelines["sd1"], cache=cache, source=new)
    found = later.errors(PROMPTS)
    assert np.array_equal(found[:4], before)
    assert later._engine().spent["unet"] == 1 * 4 * 3
    moved = classifier(pipelines["sd1"], cache=cache, source=Pictures(old.blobs[2:] + old.blobs[:2]))
    moved.errors(PROMPTS)  # the same pictures in other sets, which have other noise
    assert moved._engine().spent["unet"] == 4 * 4 * 3


def test_what_was_interrupted_is_continued(pipelines: Any, tmp_path: Path) -> None:
    class Named(Pictures):
        fingerprint = source().fingerprint

    cache, images = EmbeddingCache(tmp_path), source()
    broken = Named([*images.blobs[:2], b"no picture", images.blobs[3]])
    with pytest.raises(DatasetError, match="cannot be decoded"):
        classifier(pipelines["sd1"], cache=cache, source=broken).errors(PROMPTS)
    model = classifier(pipelines["sd1"], cache=cache, source=images)
    model.errors(PROMPTS)
    assert model._engine().spent["unet"] == 2 * 4 * 3


@pytest.fixture(scope="module")
def in_order(pipelines: Any) -> Any:
    """The errors of pictures and prompts as they are written here."""
    return classifier(pipelines["sd1"], source=source()).errors(PROMPTS)


@settings(max_examples=5, deadline=None)
@given(order=st.permutations(range(4)), words=st.permutations(range(3)))
def test_neither_the_order_of_pictures_nor_of_prompts_matters(
    pipelines: Any, in_order: Any, order: list[int], words: list[int]
) -> None:
    images = source()
    moved = Pictures([images.blobs[place] for place in order])
    moved.index.set_id = images.index.set_id[order]
    found = classifier(pipelines["sd1"], source=moved).errors([PROMPTS[word] for word in words])
    np.testing.assert_allclose(found, in_order[order][:, words], rtol=1e-5)


def test_members_of_a_set_share_their_noise_and_sets_do_not(pipelines: Any) -> None:
    same = Pictures([encoded(picture(0))] * 4)  # two sets of two members
    errors = classifier(pipelines["sd1"], source=same).errors(PROMPTS)
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-6)
    assert not np.allclose(errors[0], errors[2], rtol=1e-3)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("pix2pix", "samples=4", "which cannot paint"),
        ("refiner", "samples=4", "SDXL's refiner"),
        ("sd_inpaint", "samples=4", "with 9 UNet channels"),
        ("sd1", "samples=0", "samples is '0', not a whole number of at least 1"),
        ("sd1", "samples=1.5", "samples is '1.5'"),
        ("sd1", "samples=nan", "samples is 'nan'"),
        ("sd1", "stop=-1", "stop is '-1', not a number of at least 2"),
        ("sd1", "stop=1.9", "stop is '1.9', not a number of at least 2"),
        ("sd1", "sample=4", "an option that is unknown"),
        ("sd1", "samples=2000", "2000 samples are more than the 1000 timesteps"),
        ("sd1", "samples=1&size=30", "a picture of 30 pixels"),
    ],
)
def test_what_cannot_be_a_classifier_is_refused(pipelines: Any, kind: str, options: str, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        classifier(pipelines[kind], options).errors(PROMPTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"_class_name": "EDMEulerScheduler", "prediction_type": "v_prediction"},
        {"_class_name": "FlowMatchEulerDiscreteScheduler"},
        {"prediction_type": "flow_prediction"},
    ],
    ids=["EDM", "a flow", "a prediction"],
)
def test_a_model_that_noises_pictures_in_another_way_is_no_classifier(
    pipelines: Any, tmp_path: Path, changes: dict[str, str]
) -> None:
    folder = Path(shutil.copytree(pipelines["sd1"], tmp_path / "sd1"))
    for name, change in {
        "scheduler/scheduler_config.json": changes,
        "model_index.json": {"scheduler": ["diffusers", changes.get("_class_name", "DDIMScheduler")]},
    }.items():
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | change))
    with pytest.raises(ModelError, match="its error is no diffusion's"):
        classifier(folder).errors(PROMPTS)


def test_pickled_weights_and_code_of_the_models_own_are_refused(pipelines: Any, tmp_path: Path) -> None:
    for name in ("pickled", "coded"):
        shutil.copytree(pipelines["sd1"], tmp_path / name)
    weights = tmp_path / "pickled" / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ModelError, match="only pickled weights"):
        classifier(tmp_path / "pickled")
    index = tmp_path / "coded" / "model_index.json"
    index.write_text(index.read_text().replace('"UNet2DConditionModel"', '["evil", "UNet"]'))
    with pytest.raises(ModelError, match="code of the model's own"):
        classifier(tmp_path / "coded")


@pytest.mark.parametrize("checker", [["stable_diffusion", "StableDiffusionSafetyChecker"], 5, None])
def test_a_safety_checker_of_whatever_kind_is_not_run_and_noted(pipelines: Any, tmp_path: Path, checker: Any) -> None:
    index = Path(shutil.copytree(pipelines["sd1"], tmp_path / "sd1")) / "model_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"safety_checker": checker}))
    assert bool(classifier(index.parent).note) is (checker is not None)


def test_what_needs_a_similarity_refuses_it_by_that_name(pipelines: Any) -> None:
    model: LabelModel = classifier(pipelines["sd1"])
    with pytest.raises(ModelError, match="lacks the capability 'similarity'"):
        require_capability(model, "similarity", "probe 'words'")


@pytest.mark.parametrize("kind", ["sd1", "sdxl"])
def test_prompts_that_the_tokenizer_makes_equal_are_named(pipelines: Any, kind: str, tmp_path: Path) -> None:
    asked = [["a photo of a zebra"], ["a photo of a doctor"], ["a photo of a giraffe"]]
    assert classifier(pipelines[kind], cache=EmbeddingCache(tmp_path)).indistinct(asked) == [(0, 2)]
    again = classifier(pipelines[kind], cache=EmbeddingCache(tmp_path))
    assert again.indistinct(asked) == [(0, 2)]
    assert again._network is None


def test_states_that_differ_by_rounding_alone_are_one_text(pipelines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(share: float) -> list[tuple[int, int]]:
        model = classifier(pipelines["sd1"])
        tokens = model._engine().embed_prompts(PROMPTS[:1]).tokens
        other = tokens.clone()
        other[0, 3] *= 1 + share  # one token's
        states = {PROMPTS[0]: Conditioning(tokens), PROMPTS[1]: Conditioning(other)}
        monkeypatch.setattr(model._engine(), "embed_prompts", lambda prompts: states[prompts[0]])
        return model.indistinct([[prompt] for prompt in PROMPTS[:2]])

    assert moved(1e-6) == [(0, 1)]
    assert moved(1e-4) == []


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("unet/config.json", {"sample_size": 4}),
        ("vae/config.json", {"scaling_factor": 0.3}),
        ("scheduler/scheduler_config.json", {"prediction_type": "v_prediction"}),
        ("scheduler/scheduler_config.json", {"beta_end": 0.5}),
        ("scheduler/scheduler_config.json", {"num_train_timesteps": 500}),
    ],
)
def test_what_a_checkpoint_chooses_itself_is_part_of_its_preprocessing(
    pipelines: Any, tmp_path: Path, path: str, changes: dict[str, Any]
) -> None:
    other = Path(shutil.copytree(pipelines["sd1"], tmp_path / "sd1"))
    plain = classifier(pipelines["sd1"]).preprocessing
    assert classifier(other).preprocessing == plain
    assert classifier(other, f"samples=4&size={SIDE}").preprocessing == plain
    config = other / path
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    assert classifier(other).preprocessing != plain


def settled(errors: np.ndarray, pairs: tuple[int, int], certainty: float = np.inf) -> tuple[np.ndarray, int]:
    """What is chosen, and how many errors that takes."""
    taken = []

    def evaluate(prompts: Any, chosen: Any) -> np.ndarray:
        taken.append(len(prompts) * len(chosen))
        return np.asarray(errors[chosen][:, prompts])

    return settle(evaluate, pairs, len(errors), certainty), sum(taken)


@pytest.mark.parametrize("spoiled", [np.inf, np.nan])
@pytest.mark.parametrize("sample", [0, 95])
def test_a_choice_that_rests_on_an_infinite_error_is_none(spoiled: float, sample: int) -> None:
    errors = np.random.default_rng(0).normal(size=(96, 3))
    errors[sample, 1] = spoiled
    choice, _ = settled(errors, (1, 2))
    assert np.isnan(choice[0, 0])
    assert np.isfinite(choice[0, 1])


@given(samples=st.integers(1, 1000))
def test_every_number_of_samples_has_as_many_timesteps_in_an_order_that_covers_them(samples: int) -> None:
    times = timesteps(samples)
    assert len(times) == samples
    assert (np.diff(times) > 0).all()
    assert (times < 1000).all()
    assert sorted(spread_order(samples)) == list(range(samples))


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), samples=st.integers(1, 64))
def test_without_haste_every_comparison_is_decided_by_all_samples(seed: int, samples: int) -> None:
    errors = np.random.default_rng(seed).normal(size=(samples, 5))
    mean = errors.mean(axis=0)
    choice, evaluations = settled(errors, (2, 3))
    assert np.array_equal(choice, (mean[:2, None] < mean[None, 2:]).astype(float))
    assert evaluations == 5 * samples


def test_clear_comparisons_stop_early_and_close_ones_do_not() -> None:
    noise = np.random.default_rng(0).normal(size=(96, 1))
    errors = noise + np.array([0.0, 5.0, 5.0]) + 1e-3 * np.random.default_rng(1).normal(size=(96, 3))
    choice, evaluations = settled(errors, (1, 2), 4.0)
    assert choice.tolist() == [[1.0, 1.0]]
    assert evaluations == 3 * 12  # an eighth of the samples
    errors[:, 1] = errors[:, 0]
    choice, evaluations = settled(errors, (1, 2), 4.0)
    assert choice.tolist() == [[0.5, 1.0]]
    assert evaluations == 2 * 96 + 12


def test_early_decisions_are_cached_and_those_of_all_samples_where_nothing_is_clear(
    pipelines: Any, tmp_path: Path
) -> None:
    cache = EmbeddingCache(tmp_path)
    hasty = classifier(pipelines["sd1"], "samples=4&stop=3", cache=cache)
    found = hasty.pair_choices(PROMPTS[:1], PROMPTS[1:])
    assert np.array_equal(found, classifier(pipelines["sd1"]).pair_choices(PROMPTS[:1], PROMPTS[1:]))
    again = classifier(pipelines["sd1"], "samples=4&stop=3", cache=cache)
    assert np.array_equal(again.pair_choices(PROMPTS[:1], PROMPTS[1:]), found)
    assert again._network is None


def test_parts_of_the_samples_are_strided_cached_and_the_whole_is_what_all_samples_give(
    pipelines: Any, tmp_path: Path
) -> None:
    cache = EmbeddingCache(tmp_path)
    model = classifier(pipelines["sd1"], cache=cache)
    one, two = model.errors_by_samples(PROMPTS, (1, 2))
    assert np.array_equal(model.errors(PROMPTS), classifier(pipelines["sd1"]).errors(PROMPTS))
    assert model._engine().spent["unet"] == 4 * 4 * 3  # each sample once, whatever the parts
    engine = denoising(model)
    latents = engine.latents(picture(0).convert("RGB"))
    every = engine(latents, ["0000"], engine.model.embed_prompts(list(PROMPTS)))[0]
    np.testing.assert_allclose(one[0], every[2], rtol=1e-5)
    np.testing.assert_allclose(two[0], every[[1, 3]].mean(axis=0), rtol=1e-5)
    again = classifier(pipelines["sd1"], cache=cache)
    assert np.array_equal(again.errors_by_samples(PROMPTS, (1, 2))[1], two)
    assert again._network is None
    hasty = classifier(pipelines["sd1"], "samples=4&stop=3")
    np.testing.assert_allclose(hasty.errors_by_samples(PROMPTS, (1,))[0], one, rtol=1e-5)
    assert hasty._engine().spent["unet"] == 4 * 1 * 3


@pytest.mark.parametrize("count", [0, 5])
def test_a_part_that_the_samples_do_not_have_is_refused(pipelines: Any, count: int) -> None:
    with pytest.raises(ModelError, match=f"{count} is no part of the 4 samples[^$]*take 1 to 4"):
        classifier(pipelines["sd1"]).errors_by_samples(PROMPTS, (1, count))
