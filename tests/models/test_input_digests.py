"""Digests of how a checkpoint reads follow meaning and not formatting, and one checkpoint can read as another does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hf_world import save_folder
from model_world import PROMPTS, Pictures

from fairgate.models import open_scorer
from fairgate.models.input_digests import ReadingMisfit, tokenizer_digest
from fairgate.models.two_towers import TwoTowers

SHIPPED = Path(__file__).parents[2] / "build" / "portraits" / "checkpoints" / "base"
Change = Callable[[Any], object]


def scorer_of(folder: Path, pictures: Pictures) -> TwoTowers:
    scheme = "open_clip:local-dir" if (folder / "open_clip_config.json").is_file() else "hf"
    found = open_scorer(f"{scheme}:{folder}", pictures, device="cpu", cache=None)
    assert isinstance(found, TwoTowers)
    return found


def edit(path: Path, change: Change) -> None:
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    change(content)
    path.write_text(json.dumps(content, indent=7), encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "copy"))


@pytest.fixture(scope="module")
def hf_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder("clip", tmp_path_factory.mktemp("hf") / "clip")


def nothing(_: Any) -> None:
    pass


def padded(**changes: Any) -> Change:
    """What tokenizer.json keeps of a call that padded."""
    usual = {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None}
    usual |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    return lambda tokenizer: tokenizer.update(padding={**usual, **changes})


def cut(**changes: Any) -> Change:
    """What tokenizer.json keeps of a call that truncated."""
    usual = {"direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0}
    return lambda tokenizer: tokenizer.update(truncation={**usual, **changes})


def swapped(tokenizer: Any) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["nurse"], vocabulary["doctor"] = vocabulary["doctor"], vocabulary["nurse"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tokenizer.json", nothing),
        ("tokenizer.json", lambda one: one.update(truncation={"max_length": 16}, version="1.1")),
        ("tokenizer.json", padded()),
        ("tokenizer.json", padded(strategy="BatchLongest", pad_id=3, pad_token="[UNK]")),  # the config names its own
        ("tokenizer.json", cut()),
        ("tokenizer.json", lambda one: one["model"].update(vocab=dict(reversed(one["model"]["vocab"].items())))),
        ("tokenizer_config.json", lambda one: one.update(name_or_path="/somewhere", model_max_length=16, backend=None)),
        ("open_clip_config.json", lambda one: one["preprocess_cfg"].update(resize_mode="shortest", fill_color=0)),
        ("open_clip_config.json", lambda one: one["model_cfg"]["text_cfg"].update(hf_tokenizer_name="another/name")),
        ("open_clip_config.json", lambda one: one["model_cfg"]["text_cfg"].update(layers=3)),
        ("config.json", lambda one: one.update(hidden_size=32, tokenizer_class=None, _name_or_path="/somewhere")),
        ("README.md", nothing),
    ],
)
def test_what_changes_no_token_and_no_pixel_changes_no_digest(
    name: str, change: Change, copy: Path, pictures: Pictures
) -> None:
    before = scorer_of(copy, pictures)
    edit(copy / name, change)
    after = scorer_of(copy, pictures)
    assert (after.tokenizer, after.preprocessing) == (before.tokenizer, before.preprocessing)
    assert before.tokenizer


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tokenizer.json", swapped),
        ("tokenizer.json", lambda one: one.update(normalizer=None)),
        ("tokenizer.json", lambda one: one.update(pre_tokenizer={"type": "Whitespace"})),
        ("tokenizer.json", lambda one: one["added_tokens"].append({"id": 24, "content": "nurse"})),
        ("tokenizer.json", lambda one: one["post_processor"]["single"].pop()),
        ("tokenizer.json", lambda one: one["model"]["vocab"].update(version=24)),
        ("tokenizer.json", padded(direction="Left")),
        ("tokenizer.json", padded(pad_type_id=1)),
        ("tokenizer.json", cut(direction="Left")),
        ("tokenizer_config.json", lambda one: one.update(padding_side="left")),
        ("special_tokens_map.json", lambda one: one.update(unk_token="a")),
        ("added_tokens.json", lambda one: one.update(nurse=24)),
        ("vocab.json", lambda one: one.update(nurse=24)),
        ("config.json", lambda one: one.update(model_type="bert")),
        ("config.json", lambda one: one.update(tokenizer_class="BertTokenizer")),
        ("config.json", lambda one: one.update(encoder={"model_type": "bert"})),
        ("open_clip_config.json", lambda one: one["model_cfg"]["text_cfg"].update(context_length=12)),
        (
            "open_clip_config.json",
            lambda one: one["model_cfg"]["text_cfg"].update(tokenizer_kwargs={"clean": "canonicalize"}),
        ),
        ("open_clip_config.json", lambda one: one["model_cfg"]["text_cfg"].pop("hf_tokenizer_name")),
    ],
)
def test_what_may_change_a_token_changes_the_tokenizers_digest_alone(
    name: str, change: Change, copy: Path, pictures: Pictures
) -> None:
    before = scorer_of(copy, pictures)
    edit(copy / name, change)
    after = scorer_of(copy, pictures)
    assert after.tokenizer != before.tokenizer
    assert after.preprocessing == before.preprocessing


@pytest.mark.parametrize(
    "change",
    [
        {"mean": [0.0, 0.5, 0.5]},
        {"std": [0.5, 0.5, 0.6]},
        {"interpolation": "nearest"},
        {"resize_mode": "squash"},
        {"fill_color": 255},
    ],
)
def test_what_may_change_a_pixel_changes_the_preprocessings_digest_alone(
    change: dict[str, Any], copy: Path, pictures: Pictures
) -> None:
    before = scorer_of(copy, pictures)
    edit(copy / "open_clip_config.json", lambda one: one["preprocess_cfg"].update(change))
    after = scorer_of(copy, pictures)
    assert after.preprocessing != before.preprocessing
    assert after.tokenizer == before.tokenizer


def test_the_digests_of_a_folder_of_transformers(hf_clip: Path, tmp_path: Path, pictures: Pictures) -> None:
    folder = Path(shutil.copytree(hf_clip, tmp_path / "clip"))
    first = scorer_of(folder, pictures)
    edit(folder / "preprocessor_config.json", lambda one: one.update(processor_class="Another"))
    assert scorer_of(folder, pictures).preprocessing == first.preprocessing
    edit(folder / "config.json", lambda one: one.update(image_processor_type="BitImageProcessor"))
    assert scorer_of(folder, pictures).preprocessing != first.preprocessing, "it counts where the processor names none"
    edit(folder / "config.json", lambda one: one.pop("image_processor_type"))
    edit(folder / "preprocessor_config.json", lambda one: one.update(image_mean=[0.1, 0.2, 0.3]))
    second = scorer_of(folder, pictures)
    assert second.preprocessing != first.preprocessing
    assert second.tokenizer == first.tokenizer
    edit(folder / "tokenizer.json", lambda one: one["model"]["vocab"].update(nurse=8, chef=7))
    third = scorer_of(folder, pictures)
    assert third.tokenizer != second.tokenizer
    assert third.preprocessing == second.preprocessing
    edit(folder / "config.json", lambda one: one.update(tokenizer_class="BertTokenizer"))
    fourth = scorer_of(folder, pictures)
    assert fourth.tokenizer != third.tokenizer
    assert fourth.preprocessing == third.preprocessing


def test_merges_are_the_same_as_pairs_and_as_text_and_their_order_counts(tmp_path: Path) -> None:
    def digest(name: str, merges: list[Any]) -> str:
        path = tmp_path / name / "tokenizer.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"model": {"type": "BPE", "merges": merges, "vocab": {"a": 0}}}))
        return tokenizer_digest([path])

    pairs = digest("pairs", [["a", "b"], ["ab", "c"]])
    assert pairs == digest("text", ["a b", "ab c"])
    assert pairs != digest("turned", ["ab c", "a b"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", lambda word: {"extra_special_tokens": {"version": word}}),
        ("special_tokens_map.json", lambda word: {"backend": word}),
        ("added_tokens.json", lambda word: {"is_local": len(word)}),
        ("vocab.json", lambda word: {"version": len(word)}),
    ],
)
def test_what_is_a_note_in_a_config_is_a_token_elsewhere(
    name: str, content: Callable[[str], Any], tmp_path: Path
) -> None:
    digests = set()
    for word in (" nurse", " pharmacist"):
        (tmp_path / name).write_text(json.dumps(content(word)), encoding="utf-8")
        digests.add(tokenizer_digest([tmp_path / name]))
    assert len(digests) == 2


def test_a_pad_token_that_no_config_names_is_taken_from_the_last_call(copy: Path, pictures: Pictures) -> None:
    edit(copy / "tokenizer_config.json", lambda one: one.pop("pad_token"))
    digests = set()
    for token, number in (("[PAD]", 0), ("[UNK]", 1)):
        edit(copy / "tokenizer.json", padded(pad_token=token, pad_id=number))
        digests.add(scorer_of(copy, pictures).tokenizer)
    assert len(digests) == 2


def test_a_tokenizer_file_that_is_no_json_has_a_digest_of_its_bytes(copy: Path, pictures: Pictures) -> None:
    before = scorer_of(copy, pictures).tokenizer
    for content in (
        "[" * 100_000,
        '{"x": ' + "9" * 10_000 + "}",
        '{"x": NaN}',
        "",
        "\ud800".encode("utf-8", "replace"),
    ):
        (copy / "added_tokens.json").write_bytes(content if isinstance(content, bytes) else content.encode() or b" ")
        after = scorer_of(copy, pictures).tokenizer
        assert after != before
        before = after


def test_a_checkpoint_reads_as_another_does(copy: Path, pictures: Pictures) -> None:
    edit(copy / "tokenizer.json", swapped)
    edit(copy / "open_clip_config.json", lambda one: one["preprocess_cfg"].update(mean=[0.1, 0.2, 0.3]))
    own, original = scorer_of(copy, pictures), scorer_of(SHIPPED, pictures)
    np.testing.assert_allclose(own.text_embeddings(PROMPTS[:2]), original.text_embeddings(PROMPTS[1::-1]), atol=1e-6)
    assert not own.embeds_alike(original)
    texts = own.reading_as(original, tokenizer=True, preprocessing=False)
    np.testing.assert_allclose(texts.text_embeddings(PROMPTS), original.text_embeddings(PROMPTS), atol=1e-6)
    np.testing.assert_array_equal(texts.image_embeddings(), own.image_embeddings())
    both = own.reading_as(original, tokenizer=True, preprocessing=True)
    np.testing.assert_allclose(both.logits(PROMPTS), original.logits(PROMPTS), atol=1e-4)
    assert both.embeds_alike(original)


def test_what_does_not_fit_is_said(copy: Path, hf_clip: Path, pictures: Pictures) -> None:
    original, other = scorer_of(SHIPPED, pictures), scorer_of(hf_clip, pictures)
    with pytest.raises(ReadingMisfit, match="another length or kind"):
        original.reading_as(other, tokenizer=True, preprocessing=False).logits(PROMPTS)
    with pytest.raises(ReadingMisfit, match=r"tensors of shape \(3, 32, 32\), and the image tower takes \(3, 48, 48\)"):
        original.reading_as(other, tokenizer=False, preprocessing=True).logits(PROMPTS)
    edit(copy / "open_clip_config.json", lambda one: one["model_cfg"]["text_cfg"].update(vocab_size=37))
    edit(copy / "tokenizer.json", lambda one: one["model"]["vocab"].update(nurse=36))
    grow_vocabulary(copy / "open_clip_model.safetensors")
    with pytest.raises(ReadingMisfit, match="it gives token 36, and the text tower knows 36"):
        original.reading_as(scorer_of(copy, pictures), tokenizer=True, preprocessing=False).logits(PROMPTS)


def grow_vocabulary(path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    state = load_file(path)
    rows = state["token_embedding.weight"]
    state["token_embedding.weight"] = torch.cat([rows, rows[:1]])
    save_file(state, path)
