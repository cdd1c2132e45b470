"""Language models that see: label likelihoods agree with whole forward passes, and what cannot be judged is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_world import Pictures, encoded
from nightly import some
from PIL import Image
from seeing_world import TEMPLATE
from vlm_world import KINDS, save_vlm

from fairgate.ground.errors import DatasetError, ModelError
from fairgate.models import EmbeddingCache, open_scorer, require_capability
from fairgate.models.checkpoints import Device, find_plain
from fairgate.models.vlm.asking import LENS, Asking
from fairgate.models.vlm.seeing import VisionLanguage, open_seeing

pytestmark = pytest.mark.usefixtures("seeing_here")

QUESTION = "Can you please identify the occupation that best represents the image?"
PROMPT = LENS.format(shown="{image}", question=QUESTION)
LABELS = ["doctor", "nurse", "chef", "line cook", "physician assistant", "x-ray technician"]
CPU = Device("cpu", "fp32")

# A logit is a chain of some 20 float32 products with sums of 32 to 400 terms, on numbers of order 1: rounding is about
# 20 * sqrt(400) * 2^-24 = 2e-5 a token. The longest label has 15 tokens.
CLOSE = 15 * 2e-5

Folders = Callable[[str], Path]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Each layout's folder, saved once."""
    home, made = tmp_path_factory.mktemp("vlm"), dict[str, Path]()

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = save_vlm(kind, home / kind)
        return made[kind]

    return folder


def picture(seed: int = 0, side: int = 40) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def engine(folder: Path, prompt: str = PROMPT) -> VisionLanguage:
    return open_seeing(find_plain(folder, None, "vlm"), Asking(prompt, "sum"), CPU, 0)


def whole_pass(one: VisionLanguage, image: Image.Image, label: list[int]) -> float:
    """A label's log-likelihood by the library's own forward pass over picture, prompt and label, without a cache."""
    inputs = one.inputs(image)
    tokens = torch.tensor([label])
    if one._seq2seq:
        logits = one.model(**inputs, labels=tokens).logits[0]
    else:
        length = inputs["input_ids"].shape[1]
        inputs["input_ids"] = torch.cat([inputs["input_ids"], tokens], dim=1)
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        for name in ("token_type_ids", "mm_token_type_ids"):  # a PaliGemma's suffix is of type 1
            if name in inputs:
                kind = torch.full_like(tokens, int(name == "token_type_ids"))
                inputs[name] = torch.cat([inputs[name], kind], dim=1)
        logits = one.model(**inputs, use_cache=False).logits[0, length - 1 : -1]
    chosen = torch.log_softmax(logits.double(), dim=-1).gather(1, tokens.T)
    return float(chosen.sum())


@pytest.mark.parametrize("kind", some(KINDS, 3))
def test_likelihoods_from_one_prefix_are_those_of_a_forward_pass_a_label(kind: str, folders: Folders) -> None:
    """Of pictures in one batch, too, two of which are of one shape."""
    one, pictures = engine(folders(kind)), [picture(), picture(2, 90), picture(1)]
    with torch.inference_mode():
        tokens = one.tokens(LABELS)
        assert max(map(len, tokens)) > 3
        found = one.log_likelihoods([one.inputs(each) for each in pictures], tokens)
        expected = [[whole_pass(one, each, label) for label in tokens] for each in pictures]
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)
    assert np.abs(found[2] - found[0]).max() > 100 * CLOSE, "the picture makes a difference"


def scorer(folder: Path, pictures: Pictures, cache: EmbeddingCache | None = None, **options: str) -> Any:
    written = "&".join(f"{name}={value}" for name, value in {"question": QUESTION, **options}.items() if value)
    return open_scorer(f"vlm:{folder}?{written}", pictures, device="cpu", cache=cache)


def test_the_text_of_a_smolvlms_picture_is_that_of_its_own_processor(folders: Folders) -> None:
    """Which needs num2words, for videos."""
    pytest.importorskip("num2words")
    import transformers

    one = engine(folders("smolvlm"))
    parts = {"image_processor": one.processor.image_processor, "tokenizer": one.processor.tokenizer}
    video = transformers.SmolVLMVideoProcessor()
    own = transformers.SmolVLMProcessor(**parts, video_processor=video, image_seq_len=one.processor.image_seq_len)
    for side in (20, 40, 90):
        made = own(images=[picture(side=side)], text=[one._text(PROMPT)], return_tensors="pt")
        assert torch.equal(made["input_ids"], one.inputs(picture(side=side))["input_ids"])


@pytest.fixture
def llava(folders: Folders, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(folders("llava"), tmp_path / "llava"))


def test_a_label_is_scored_once_whatever_it_is_compared_with(
    folders: Folders, pictures: Pictures, cache: EmbeddingCache
) -> None:
    one = scorer(folders("llava"), pictures, cache)
    found = one.log_probabilities(LABELS)
    assert one.pictures_read == len(pictures)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1)
    again = scorer(folders("llava"), pictures, cache)
    two = again.log_probabilities(["nurse", "doctor"])
    assert again.pictures_read == 0
    np.testing.assert_allclose(two[:, 0] - two[:, 1], found[:, 1] - found[:, 0], atol=1e-6)
    assert scorer(folders("llava"), pictures, cache).indistinct([[label] for label in LABELS]) == []


def test_of_a_release_that_shares_pictures_only_the_new_ones_are_shown(
    folders: Folders, pictures: Pictures, cache: EmbeddingCache
) -> None:
    before = scorer(folders("llava"), pictures, cache).log_likelihoods(LABELS[:1])
    both = scorer(folders("llava"), pictures, cache).log_likelihoods(LABELS)
    new = Pictures([*pictures.blobs[:6:-1], encoded(picture(99)), *pictures.blobs[:5]])
    shared = [9, 8, 7, 0, 1, 2, 3, 4]
    later = scorer(folders("llava"), new, cache)
    found = later.log_likelihoods(LABELS)  # all at once, which were scored one after another
    assert later.pictures_read == 1
    assert np.array_equal(np.delete(found, 3, axis=0), both[shared])
    assert np.array_equal(before[:, 0], both[:, 0])
    fresh = scorer(folders("llava"), new)
    np.testing.assert_allclose(found, fresh.log_likelihoods(LABELS), atol=1e-5)
    other = scorer(folders("llava"), new, cache, average="mean")  # answers otherwise: nothing of it is known
    other.log_likelihoods(LABELS)
    assert other.pictures_read == len(new)


def test_an_interrupted_run_goes_on_where_it_was(folders: Folders, pictures: Pictures, cache: EmbeddingCache) -> None:
    whole = pictures.blobs[4]
    pictures.blobs[4] = b"not a picture"
    with pytest.raises(DatasetError, match="cannot be decoded"):
        scorer(folders("llava"), pictures, cache).log_probabilities(LABELS)
    spoiled = pictures.fingerprint
    again = scorer(folders("llava"), pictures, cache)
    pictures.blobs[4] = whole
    pictures.__class__ = type("Renamed", (Pictures,), {"fingerprint": spoiled})  # the same release, mended in place
    again.log_probabilities(LABELS)
    assert again.pictures_read == len(pictures) - 4  # of which four at once are done


def test_a_mean_over_tokens_is_the_sum_divided_by_their_number(folders: Folders, pictures: Pictures) -> None:
    folder = folders("llava")
    lengths = [len(label) for label in engine(folder).tokens(LABELS)]
    total = scorer(folder, pictures).log_likelihoods(LABELS)
    mean = scorer(folder, pictures, average="mean").log_likelihoods(LABELS)
    np.testing.assert_allclose(mean, total / lengths, rtol=1e-6)


def test_other_questions_and_other_tokens_are_another_models(llava: Path, folders: Folders, pictures: Pictures) -> None:
    one = scorer(folders("llava"), pictures)
    assert scorer(llava, pictures, average="mean").fingerprint != one.fingerprint
    other = scorer(llava, pictures, question="Who is this?")
    assert (other.fingerprint, other.preprocessing) != (one.fingerprint, one.preprocessing)
    assert other.tokenizer == one.tokenizer
    config = json.loads((llava / "tokenizer.json").read_text())
    config["model"]["merges"] = config["model"]["merges"][:-5]
    (llava / "tokenizer.json").write_text(json.dumps(config))
    changed = scorer(llava, pictures)
    assert changed.tokenizer != one.tokenizer
    again = changed.reading_as(one, tokenizer=True, preprocessing=False)
    np.testing.assert_array_equal(again.log_likelihoods(LABELS), one.log_likelihoods(LABELS))


def test_a_chat_template_surrounds_the_message_unless_the_uri_has_the_whole_text(
    llava: Path, pictures: Pictures
) -> None:
    message = {"question": "", "prompt": "{image}Who is it?"}
    before = scorer(llava, pictures, **message)
    (llava / "chat_template.jinja").write_text(TEMPLATE.replace("IMAGE", "<image>").replace("{{ bos_token }}", ""))
    after, whole = scorer(llava, pictures, **message), scorer(llava, pictures, **message, template="none")
    assert len({after.fingerprint, whole.fingerprint, before.fingerprint}) == 3
    assert after.tokenizer != whole.tokenizer == before.tokenizer
    expected = before.log_likelihoods(LABELS)
    np.testing.assert_array_equal(whole.log_likelihoods(LABELS), expected)
    asked = {"question": "", "prompt": "USER: {image}Who is it? ASSISTANT:"}
    found = after.log_likelihoods(LABELS)
    assert np.abs(found - expected).max() > 100 * CLOSE
    np.testing.assert_array_equal(found, scorer(llava, pictures, **asked, template="none").log_likelihoods(LABELS))
    with pytest.raises(ModelError, match="its files do not decide alone"):
        after.reading_as(whole, tokenizer=True, preprocessing=False)


def test_labels_that_are_one_text_to_the_model_are_named(llava: Path, pictures: Pictures) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(llava / "model.safetensors")
    (rows,) = (name for name in weights if name.endswith("embed_tokens.weight"))
    (head,) = (name for name in weights if name.endswith("lm_head.weight"))
    words = engine(llava)._read
    (doctor,), (nurse,) = words(" doctor"), words(" nurse")
    for name in (rows, head):
        weights[name][nurse] = weights[name][doctor]
    save_file(weights, llava / "model.safetensors", metadata={"format": "pt"})
    assert scorer(llava, pictures).indistinct([[label] for label in LABELS]) == [(0, 1)]


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_window_that_only_the_librarys_cache_obeys_is_refused(llava: Path) -> None:
    config = json.loads((llava / "config.json").read_text())
    edit(llava / "config.json", text_config={**config["text_config"], "sliding_window": 4})
    with pytest.raises(ModelError, match="window for the cache"):
        engine(llava)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"question": ""}, "is unknown or empty|a question, or a prompt, and not both"),
        ({"prompt": "{image} Who?"}, "a question, or a prompt, and not both"),
        ({"question": "", "prompt": "{image}{image} Who?"}, "does not name"),
        ({"average": "median"}, "average is 'median'"),
        ({"wording": "x"}, "is unknown or empty"),
        ({"template": "llava"}, "template is 'llava'"),
    ],
)
def test_a_uri_that_asks_nothing_or_twice_is_refused(
    options: dict[str, str], problem: str, folders: Folders, pictures: Pictures
) -> None:
    with pytest.raises(ModelError, match=problem):
        scorer(folders("llava"), pictures, **options)


def test_an_unsupported_architecture_is_refused_by_name_with_those_that_are_not(
    llava: Path, pictures: Pictures
) -> None:
    edit(llava / "config.json", model_type="bert", architectures=["BertModel"])
    with pytest.raises(ModelError, match=r"'bert', which the vlm: adapter") as raised:
        scorer(llava, pictures)
    assert "llava, qwen2_vl, qwen2_5_vl, paligemma, blip-2, internvl" in str(raised.value)


def test_code_and_pickles_are_refused(llava: Path, pictures: Pictures) -> None:
    edit(llava / "processor_config.json", auto_map={"AutoProcessor": "mine.Processor"})
    with pytest.raises(ModelError, match="code of its own"):
        scorer(llava, pictures)
    edit(llava / "processor_config.json", auto_map=None)
    (llava / "model.safetensors").rename(llava / "pytorch_model.bin")
    with pytest.raises(ModelError, match="only pickled weights"):
        scorer(llava, pictures)


def test_a_file_that_changes_before_it_is_loaded_is_refused(llava: Path, pictures: Pictures) -> None:
    one = scorer(llava, pictures)
    edit(llava / "tokenizer_config.json", note="later")
    with pytest.raises(ModelError, match="changed between hashing and loading"):
        one.log_probabilities(LABELS)


def test_a_label_that_merges_with_the_prompt_or_has_no_token_is_refused(llava: Path, pictures: Pictures) -> None:
    assert engine(llava, "{image}A pil").tokens(["ot"])  # a space goes between
    with pytest.raises(ModelError, match="has no token"):
        scorer(llava, pictures).log_probabilities(["doctor", " "])
    # A tokenizer that reads white space and what follows as one token cannot score what follows a line break.
    made = json.loads((llava / "tokenizer.json").read_text())
    made["pre_tokenizer"]["use_regex"] = False
    made["model"]["merges"].append(["Ċ", "x"])
    made["model"]["vocab"]["Ċx"] = max(made["model"]["vocab"].values()) + 1
    (llava / "tokenizer.json").write_text(json.dumps(made))
    with pytest.raises(ModelError, match="joins the label 'x' with the end of the prompt"):
        engine(llava, "{image}Who?\n").tokens(["doctor", "x"])


def test_a_tokenizer_that_ends_every_text_is_refused(llava: Path, pictures: Pictures) -> None:
    made = json.loads((llava / "tokenizer.json").read_text())
    made["post_processor"]["single"].append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    (llava / "tokenizer.json").write_text(json.dumps(made))
    with pytest.raises(ModelError, match="ends the prompt with other tokens"):
        scorer(llava, pictures).log_probabilities(LABELS)


def test_a_picture_that_the_language_model_would_not_see_is_an_error(folders: Folders, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders("blip-2"), tmp_path / "blip"))
    edit(folder / "config.json", image_token_index=100, image_token_id=100)
    one = engine(folder)
    with pytest.raises(ModelError, match="would not see it"):
        one.inputs(picture())


def test_weights_that_diverged_are_refused_and_so_is_an_answer_without_a_number(
    llava: Path, pictures: Pictures
) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(llava / "model.safetensors")
    (head,) = (name for name in weights if name.endswith("lm_head.weight"))
    save_file({**weights, head: weights[head] * float("nan")}, llava / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="NaN or infinite weights"):
        scorer(llava, pictures).log_probabilities(LABELS)
    save_file({**weights, head: weights[head] * 1e38}, llava / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="likelihood of a label is NaN or infinite"):
        scorer(llava, pictures).log_probabilities(LABELS)


def test_a_probe_that_ranks_is_refused_by_the_capability_that_is_lacking(folders: Folders, pictures: Pictures) -> None:
    with pytest.raises(ModelError, match="lacks the capability 'similarity'"):
        require_capability(scorer(folders("llava"), pictures), "similarity", "probe 'search'")
