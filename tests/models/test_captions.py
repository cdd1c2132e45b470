"""`captions:`: one model describes the picture, another scores the labels given the description alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from language_world import save_language
from model_world import Pictures
from vlm_world import save_vlm

from fairgate.ground.errors import ModelError
from fairgate.models import CacheWarning, EmbeddingCache, local_paths, open_scorer
from fairgate.models.vlm.family import DescribedModel

pytestmark = pytest.mark.usefixtures("seeing_here")
LABELS = ["doctor", "line cook", "x-ray technician"]
ASKED = "question=Who is it?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A captioner, and a language model of each kind: one that continues a text, one with an encoder."""
    folder = tmp_path_factory.mktemp("captions")
    save_vlm("llava", folder / "seeing")
    for kind in ("llama", "t5"):
        save_language(kind, folder / kind)
    return folder


def uri(kind: str) -> str:
    return f"captions:{kind}?{ASKED}&captioner=vlm:seeing?prompt={{image}}A photo of"


@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_labels_are_as_likely_as_in_a_pass_over_caption_and_label(
    kind: str, home: Path, pictures: Pictures, cache: EmbeddingCache
) -> None:
    import transformers as t

    scorer: Any = open_scorer(uri(kind), pictures, device="cpu", cache=cache, base=home)
    found = scorer.log_likelihoods(LABELS)
    captions = list(scorer.captioner.captions(30).values())
    assert len(set(captions)) > 1
    words = t.AutoTokenizer.from_pretrained(home / kind)
    model: Any = {"llama": t.LlamaForCausalLM, "t5": t.T5ForConditionalGeneration}[kind].from_pretrained(home / kind)
    for row, caption in list(enumerate(captions))[:3]:
        prompt = f"Caption: {caption}\nQuestion: Who is it? Short Answer:"
        for place, label in enumerate(LABELS):
            with torch.inference_mode():
                if kind == "t5":
                    target = words(label, add_special_tokens=False, return_tensors="pt")["input_ids"]
                    logits = model(**words(prompt, return_tensors="pt"), labels=target).logits[0]
                else:
                    whole = words(f"{prompt} {label}", return_tensors="pt")["input_ids"]
                    start = len(words(prompt)["input_ids"])
                    target, logits = whole[:, start:], model(whole).logits[0, start - 1 : -1]
                expected = torch.log_softmax(logits.double(), dim=-1).gather(1, target.T).sum()
            assert found[row, place] == pytest.approx(float(expected), abs=3e-4)  # as in test_vlm.py


def test_captions_are_made_once_for_all_language_models(home: Path, pictures: Pictures, cache: EmbeddingCache) -> None:
    first: Any = open_scorer(uri("llama"), pictures, device="cpu", cache=cache, base=home)
    first.log_probabilities(LABELS)
    handed_out = pictures.handed_out
    second: Any = open_scorer(uri("t5"), pictures, device="cpu", cache=cache, base=home)
    assert np.isfinite(second.log_probabilities(LABELS)).all()
    assert pictures.handed_out == handed_out
    assert second.fingerprint != first.fingerprint


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ({"bad_words_ids": [[5]], "repetition_penalty": 0.0001}, None),
        ({"penalty_alpha": 0.6, "top_k": 4}, None),
        ({"suppress_tokens": list(range(50, 300)), "dola_layers": "low"}, "text_config"),
    ],
)
def test_each_token_of_a_caption_is_the_likeliest_whatever_config_json_says_of_decoding(
    said: dict[str, Any], where: str | None, home: Path, pictures: Pictures, tmp_path: Path
) -> None:
    told = shutil.copytree(home / "seeing", tmp_path / "told")
    config = json.loads((told / "config.json").read_text())
    (config[where] if where else config).update(said)
    (told / "config.json").write_text(json.dumps(config))
    first, second = (
        open_scorer(f"vlm:{folder}?prompt={{image}}A photo of", pictures, device="cpu", cache=None).captions(8)
        for folder in (home / "seeing", told)
    )
    assert len(set(first)) > 1
    assert second == first


@pytest.mark.parametrize("damage", [(b'captions":"{', b'captions":"X'), (rb"{\"0\"", rb"{\"1\"")])
def test_cached_captions_that_were_changed_are_made_again(
    damage: tuple[bytes, bytes], home: Path, pictures: Pictures, cache: EmbeddingCache
) -> None:
    def captions() -> dict[int, str]:
        scorer: Any = open_scorer("vlm:seeing?prompt={image}A photo of", pictures, device="cpu", cache=cache, base=home)
        made: dict[int, str] = scorer.captions(8)
        return made

    first = captions()
    (path,) = (cache.folder / "captions").rglob("*.safetensors")
    whole = path.read_bytes()
    assert whole.count(damage[0]) == 1
    path.write_bytes(whole.replace(*damage))
    with pytest.warns(CacheWarning, match="its checksum does not match"):
        assert captions() == first
    assert captions() == first


def test_both_models_are_files_of_the_uri(home: Path, pictures: Pictures) -> None:
    assert [str(path) for path in local_paths(uri("llama"))] == ["llama", "seeing"]
    for wrong, problem in (
        (f"captions:llama?{ASKED}", "names no model that describes"),
        (f"captions:llama?{ASKED}&captioner=scores:x.csv?values=logit", "names no model that describes"),
        (uri("seeing"), "'llava', which the captions: adapter"),
    ):
        with pytest.raises(ModelError, match=problem):
            open_scorer(wrong, pictures, device="cpu", base=home)


def test_pictures_are_described_by_the_thread_that_asks_since_a_process_of_another_may_outlive_it() -> None:
    class Captioner:
        note, asked = "a note", 0

        def captions(self, _: int) -> dict[int, str]:
            self.asked += 1
            return {0: "a cat", 2: "a dog", 3: "a bird"}

    described: Any = object.__new__(DescribedModel)
    described.captioner = Captioner()
    pieces = described._pieces([0, 1, 2, 3], 2)
    assert (described.captioner.asked, described.note) == (1, "a note")
    assert list(pieces) == [([0, 2], ["a cat", "a dog"]), ([3], ["a bird"])]
