"""Answers of language models that see: those of transformers' own decoding, one by one, cached, and only as asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_world import Pictures, encoded, picture
from nightly import some
from vlm_world import KINDS, save_vlm

from fairgate.ground.errors import DatasetError, ModelError, clean
from fairgate.models import EmbeddingCache, open_scorer
from fairgate.models.checkpoints import Device, find_plain
from fairgate.models.decoding import decode_rgb
from fairgate.models.vlm import family
from fairgate.models.vlm.asking import Asking
from fairgate.models.vlm.seeing import open_seeing

pytestmark = pytest.mark.usefixtures("seeing_here")

CHAT = "{image}{question} Answer:"
ASKED = "Who is it?"
CPU = Device("cpu", "fp32")
Folders = Callable[[str], Path]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    home, made = tmp_path_factory.mktemp("vlm-answers"), dict[str, Path]()

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = save_vlm(kind, home / kind)
        return made[kind]

    return folder


def opened(folder: Path, pictures: Pictures, cache: EmbeddingCache | None = None, chat: str = CHAT) -> Any:
    return open_scorer(f"vlm:{folder}?chat={chat}", pictures, device="cpu", cache=cache)


def step_by_step(folder: Path, image: Any, prompt: str, longest: int) -> str:
    """Greedy decoding with the library's forward pass over the whole text, without a cache."""
    one = open_seeing(find_plain(folder, None, "vlm"), Asking(prompt, "sum"), CPU, 0)
    model, inputs, said = one.model, one.inputs(image), list[int]()
    with torch.inference_mode():
        for _ in range(longest):
            token = int(model(**inputs, use_cache=False).logits[0, -1].argmax())
            if token == model.generation_config.eos_token_id:
                break
            said.append(token)
            new = torch.tensor([[token]])
            inputs["input_ids"] = torch.cat([inputs["input_ids"], new], dim=1)
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
            for name in ("token_type_ids", "mm_token_type_ids"):
                if name in inputs:
                    kind = torch.full_like(new, int(name == "token_type_ids"))
                    inputs[name] = torch.cat([inputs[name], kind], dim=1)
    return clean(one.tokenizer.decode(said, skip_special_tokens=True))


def test_a_model_is_opened_once_for_all_questions_and_for_other_pictures(
    folders: Folders, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, opens = family.IsolatedSeeing, list[Any]()
    monkeypatch.setattr(family, "IsolatedSeeing", lambda *given: opens.append(given) or opening(*given))
    first, second = opened(folders("llava"), pictures), opened(folders("llava"), Pictures(pictures.blobs[:2]))
    second.share(first)
    for model, question in ((first, ASKED), (first, "What is it?"), (second, ASKED)):
        model.answer([question] * len(model._request.source), 2)
    assert len(opens) == 1


@pytest.mark.parametrize("kind", some([kind for kind in KINDS if kind != "blip-2-t5"], 3))
def test_answers_are_those_of_greedy_decoding_step_by_step(kind: str, folders: Folders, pictures: Pictures) -> None:
    answers = opened(folders(kind), pictures).answer([ASKED] * len(pictures), 5)
    assert len(answers) == len(pictures)
    for row in (0, len(pictures) - 1):
        image = decode_rgb(pictures.blobs[row], pictures, row)
        assert answers[row] == step_by_step(folders(kind), image, CHAT.replace("{question}", ASKED), 5)


def test_a_picture_with_an_empty_prompt_is_not_asked_and_others_are_once(
    folders: Folders, pictures: Pictures, cache: EmbeddingCache
) -> None:
    prompts = ["", *[ASKED] * (len(pictures) - 2), "What is it?"]
    one = opened(folders("llava"), pictures, cache)
    found = one.answer(prompts, 3)
    assert found[0] == ""
    assert one.pictures_read == len(pictures) - 1
    again = opened(folders("llava"), pictures, cache)
    np.testing.assert_array_equal(again.answer(prompts, 3), found)
    assert again.pictures_read == 0


def test_of_a_release_that_shares_pictures_only_those_are_asked_about_that_are_new_or_are_asked_something_new(
    folders: Folders, pictures: Pictures, cache: EmbeddingCache
) -> None:
    prompts = [*[ASKED] * (len(pictures) - 2), "", "What is it?"]
    before = opened(folders("llava"), pictures, cache).answer(prompts, 3)
    new = Pictures([*pictures.blobs[::-1], encoded(picture(99))])
    later = opened(folders("llava"), new, cache)
    found = later.answer([*prompts[::-1], ASKED], 3)
    assert later.pictures_read == 1
    np.testing.assert_array_equal(found[:-1], before[::-1])
    again = opened(folders("llava"), new, cache)
    all_asked = again.answer([ASKED] * len(new), 3)
    assert again.pictures_read == 2  # of the two that were asked nothing, or something else
    fresh = opened(folders("llava"), new)
    np.testing.assert_array_equal(all_asked, fresh.answer([ASKED] * len(new), 3))
    longer = opened(folders("llava"), new, cache)
    longer.answer([ASKED] * len(new), 4)
    assert longer.pictures_read == len(new)


def test_an_interrupted_run_goes_on_where_it_was(folders: Folders, pictures: Pictures, cache: EmbeddingCache) -> None:
    whole, prompts = pictures.blobs[-1], [ASKED] * len(pictures)
    expected = opened(folders("llava"), pictures).answer(prompts, 3)
    pictures.blobs[-1] = b"not a picture"
    with pytest.raises(DatasetError, match="cannot be decoded"):
        opened(folders("llava"), pictures, cache).answer(prompts, 3)
    spoiled = pictures.fingerprint
    again = opened(folders("llava"), pictures, cache)
    pictures.blobs[-1] = whole
    pictures.__class__ = type("Renamed", (Pictures,), {"fingerprint": spoiled})
    np.testing.assert_array_equal(again.answer(prompts, 3), expected)


def test_another_chat_is_another_models_answer_and_a_likelihood_needs_a_question(
    folders: Folders, pictures: Pictures
) -> None:
    one, other = (opened(folders("llava"), pictures, chat=chat) for chat in (CHAT, "{image}{question}"))
    assert one.fingerprint != other.fingerprint
    assert one.capabilities == {"answer"}
    asked = open_scorer(f"vlm:{folders('llava')}?question=Who?", pictures, device="cpu")
    assert asked.capabilities == {"log_probabilities"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("chat={image} Who?", "does not name {question} once"),
        ("chat={image}{image}{question}", "at most once"),
        ("chat={question}&question=Who?", "a chat, for a suite's questions, and a question"),
    ],
)
def test_a_chat_that_asks_nothing_or_twice_is_refused(
    options: str, problem: str, folders: Folders, pictures: Pictures
) -> None:
    with pytest.raises(ModelError, match=problem):
        open_scorer(f"vlm:{folders('llava')}?{options}", pictures, device="cpu")


@pytest.mark.parametrize(("question", "problem"), [("{image}?", "holds a mark"), ("<image>?", "2 <image> tokens")])
def test_a_question_cannot_bring_a_second_picture(
    question: str, problem: str, folders: Folders, pictures: Pictures
) -> None:
    with pytest.raises(ModelError, match=problem):
        opened(folders("llava"), pictures).answer([question] * len(pictures), 3)


def _ending(folder: Path, **ids: Any) -> Path:
    """The folder, with these ids as the end of a text in `config` and `generation_config`."""
    for name, end in ids.items():
        path = folder / f"{name}.json"
        said = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**said, "eos_token_id": end}))
    return folder


def test_an_answer_ends_where_the_deployed_model_ends_it(tmp_path: Path, pictures: Pictures) -> None:
    folder = _ending(save_vlm("llava", tmp_path / "m"), generation_config=2)
    plain = opened(folder, pictures)
    engine = plain._engine()
    asked = [engine.inputs(decode_rgb(pictures.blobs[0], pictures, 0), CHAT.replace("{question}", ASKED))]
    second = int(engine.model.generate(**asked[0], do_sample=False, max_new_tokens=2)[0, -1])
    ended = opened(_ending(folder, generation_config=[2, second]), pictures)
    assert ended._engine().answers(asked, 6) == engine.answers(asked, 2), "an end that is a word is one of the answer's"
    assert engine.answers(asked, 6) != engine.answers(asked, 2)
    assert ended.tokenizer != plain.tokenizer
    assert ended.fingerprint != plain.fingerprint


def test_settings_of_decoding_are_named_where_text_is_written_and_not_where_labels_are_weighed(
    tmp_path: Path, folders: Folders, pictures: Pictures, cache: EmbeddingCache
) -> None:
    folder = Path(shutil.copytree(folders("llava"), tmp_path / "m"))
    settings = {"do_sample": True, "suppress_tokens": [40], "max_length": 9, "eos_token_id": 2}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    one = opened(folder, pictures, cache)
    one.answer([ASKED] * len(pictures), 2)
    assert one.note.endswith("are not used, each token is the likeliest: do_sample, suppress_tokens")
    assert opened(folder, pictures, cache).note == one.note, "also of a run that has its answers from the cache"
    labels = open_scorer(f"vlm:{folder}?question=Who?", pictures, device="cpu")
    labels.log_likelihoods(["doctor"])
    assert labels.note is None, "of a type that every run opens in this way, nothing is to review"
