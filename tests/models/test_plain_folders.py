"""Models of types that are in no list: transformers opens them, in a process that reaches nothing else."""

from __future__ import annotations

import functools
import gc
import io
import json
import multiprocessing
import os
import pickle
import shutil
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from classifier_world import LABELS, SMALL, processor
from hf_world import tiny_tokenizer
from model_world import Pictures
from nightly import some
from peft_world import save_adapter
from PIL import Image
from seeing_world import florence2, gemma3, mistral3, qwen3_5, random, save_seeing
from tower_world import TOWERS, save_towers

from fairgate.ground.errors import ModelError
from fairgate.models import EmbeddingCache, isolated, open_scorer
from fairgate.models.checkpoints import Device, find_plain, is_plain, scoring
from fairgate.models.classifiers import transformers_classifier
from fairgate.models.hf import load_towers
from fairgate.models.input_digests import folder_tokenizer
from fairgate.models.isolated import called, child, host, messages
from fairgate.models.vlm import engine, seeing
from fairgate.models.vlm.asking import Asking
from fairgate.models.vlm.seeing import open_seeing

CPU = Device("cpu", "fp32")
GIVEN_UP = """
import ctypes, importlib.util, os, resource, socket, subprocess, sys, threading
from pathlib import Path
spec = importlib.util.spec_from_file_location("sandbox", sys.argv[1])
sandbox = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sandbox)
if sys.argv[5] == "without Landlock":
    sandbox._confine = lambda *_: True
sandbox._GPUS = ("null",) if sys.argv[5] == "with a GPU's driver" else ()
missing = sandbox.restrict([Path(sys.argv[2])], Path(sys.argv[3]))
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, act):
    try:
        print(name, "no" if act() == -1 else "yes")
    except OSError:
        print(name, "no")
print("missing", missing)
tried("its own file", lambda: open(sys.argv[2]).read())
tried("its own folder", lambda: Path(sys.argv[3], "made").write_text("x"))
tried("another file", lambda: open(sys.argv[4]).read())
tried("another file, from C", lambda: libc.open(sys.argv[4].encode(), 0))
tried("to write its file", lambda: open(sys.argv[2], "a"))
tried("the parent's secrets", lambda: open(f"/proc/{os.getppid()}/environ").read())
tried("a socket", lambda: libc.socket(2, 1, 0))
own = libc.socket(1, 5 | os.O_NONBLOCK, 0)
name = b"\\1\\0\\0fairgate-" + str(os.getpid()).encode()
permitted = lambda answer: -1 if answer == -1 and ctypes.get_errno() == 1 else 0
tried("a local socket", lambda: own)
tried("its name", lambda: libc.bind(own, name, len(name)))
tried("to listen", lambda: libc.listen(own, 1))
tried("to accept", lambda: permitted(libc.accept4(own, None, None, 0)))
tried("to connect", lambda: permitted(libc.connect(own, name, len(name))))
tried("a socket for datagrams", lambda: libc.socket(1, 2, 0))
tried("a pair for datagrams", lambda: libc.socketpair(1, 2, 0, (ctypes.c_int * 2)()))
tried("a thread's name", lambda: open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write("name"))
tried("a connection", lambda: socket.create_connection(("127.0.0.1", 9), 1))
tried("a program", lambda: subprocess.run([sys.executable, "-c", ""]))
tried("a program, from C", lambda: libc.execv(sys.executable.encode(), None))
tried("a signal", lambda: os.kill(os.getppid(), 0))
tried("a signal to its group", lambda: os.kill(0, 0))
tried("a thread", lambda: threading.Thread(target=print, args=["begun yes"]).start())
tried("another process", libc.fork)
tried("to cut a file", lambda: libc.truncate(sys.argv[4].encode(), 0))
tried("to cut its file", lambda: libc.open(sys.argv[2].encode(), os.O_TRUNC))
tried("a file's mode", lambda: libc.chmod(sys.argv[4].encode(), 0o777))
tried("a file's owner", lambda: libc.chown(sys.argv[4].encode(), os.getuid(), os.getgid()))
tried("a file's time", lambda: libc.utimes(sys.argv[4].encode(), None))
tried("shared memory", lambda: libc.shmget(0, 4096, 0o1600))
tried("a queue", lambda: libc.msgget(0, 0o1600))
tried("limits of the parent", lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0)))
tried("its own limits", lambda: resource.getrlimit(resource.RLIMIT_CORE))
tried("the parent's share", lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19))
tried("to outlive the parent", lambda: libc.prctl(1, 0, 0, 0, 0))
tried("another root", lambda: libc.chroot(sys.argv[3].encode()))
tried("its turn", lambda: libc.sched_setscheduler(0, 0, ctypes.byref(ctypes.c_int(0))))
tried("a folder's news", libc.inotify_init)
tried("a file's commands", lambda: libc.open(sys.argv[4].encode(), os.O_WRONLY | os.O_RDWR))
tried("whom a file signals", lambda: libc.fcntl(0, 8, os.getpid()))
tried("whom a thread signals", lambda: libc.fcntl(0, 15, (ctypes.c_int * 2)(1, os.getpid())))
ends = (ctypes.c_int * 2)()
tried("a pair", lambda: libc.socketpair(1, 1, 0, ends))
tried("whom a socket signals", lambda: libc.ioctl(ends[0], 0x8901, ctypes.byref(ctypes.c_int(os.getpid()))))
tried("whom its group signals", lambda: libc.ioctl(ends[0], 0x8902, ctypes.byref(ctypes.c_int(os.getpid()))))
read = os.open(sys.argv[2], os.O_RDONLY)
tried("a lease of its file", lambda: permitted(libc.fcntl(read, 1024, 0)))
tried("its file's flags", lambda: permitted(libc.ioctl(read, 0x40086602, None)))
tried("its file's project", lambda: permitted(libc.ioctl(read, 0x401C5820, None)))
tried("its file's seal", lambda: permitted(libc.ioctl(read, 0x40806685, None)))
tried("root's power", lambda: int(open("/proc/self/status").read().split("CapEff:")[1].split()[0], 16) & ~6 or -1)
"""


def given_up(folder: Path, kernel: str = "this kernel") -> subprocess.CompletedProcess[str]:
    """What a process still reaches that gave up all but one file and one folder."""
    own, other, home = folder / "own.json", folder / "other.json", folder / "home"
    own.write_text("{}")
    other.write_text("secret")
    home.mkdir()
    lines = [sys.executable, "-I", "-c", GIVEN_UP, str(child._SCRIPT), str(own), str(home), str(other), kernel]
    return subprocess.run(lines, capture_output=True, text=True, check=True)


@pytest.fixture(scope="session")
def isolating(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the kernel cannot isolate a process: there a model is refused in CI."""
    told = given_up(tmp_path_factory.mktemp("isolating")).stdout
    if "missing []" not in told:
        pytest.skip(f"this machine's kernel cannot: {told.splitlines()[0]}")


STAGES = {"hidden_sizes": [8, 8], "depths": [1, 1]}
CLASSIFIERS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "beit": ("BeitConfig", "BeitForImageClassification", "BeitImageProcessor", {**SMALL, "out_indices": [1]}),
    "bit": (
        "BitConfig",
        "BitForImageClassification",
        "BitImageProcessor",
        {**STAGES, "embedding_size": 8, "num_groups": 4},
    ),
    "focalnet": (
        "FocalNetConfig",
        "FocalNetForImageClassification",
        "BitImageProcessor",
        {"image_size": 32, "embed_dim": 8, "depths": [1, 1], "focal_levels": [1, 1], "focal_windows": [3, 3]},
    ),
    "hiera": (
        "HieraConfig",
        "HieraForImageClassification",
        "BitImageProcessor",
        {
            "image_size": [32, 32],
            "embed_dim": 8,
            "depths": [1, 1],
            "num_heads": [1, 2],
            "masked_unit_size": [4, 4],
            "num_query_pool": 1,
        },
    ),
    "ijepa": ("IJepaConfig", "IJepaForImageClassification", "ViTImageProcessor", SMALL),
    "mobilevit": (
        "MobileViTConfig",
        "MobileViTForImageClassification",
        "MobileViTImageProcessor",
        {"image_size": 32, "hidden_sizes": [8, 8, 8], "num_attention_heads": 2, "neck_hidden_sizes": [8] * 7},
    ),
    "pvt_v2": (
        "PvtV2Config",
        "PvtV2ForImageClassification",
        "PvtImageProcessor",
        {"image_size": 32, "hidden_sizes": [8] * 4, "depths": [1] * 4, "num_attention_heads": [1] * 4},
    ),
    "regnet": (
        "RegNetConfig",
        "RegNetForImageClassification",
        "ConvNextImageProcessor",
        {"embedding_size": 8, "hidden_sizes": [8] * 4, "depths": [1] * 4, "groups_width": 4},
    ),
}


def save_plain(kind: str, folder: Path) -> Path:
    import transformers

    config, model, images, settings = CLASSIFIERS[kind]
    named = {"id2label": dict(enumerate(LABELS)), "label2id": {name: place for place, name in enumerate(LABELS)}}
    random(lambda: getattr(transformers, model)(getattr(transformers, config)(**settings, **named))).save_pretrained(
        folder
    )
    processor(images).save_pretrained(folder)
    return folder


def own_logits(folder: Path, pictures: Pictures) -> Any:
    import torch
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    model = AutoModelForImageClassification.from_pretrained(folder).eval()
    images = [Image.open(io.BytesIO(blob)) for blob in pictures.blobs]
    with torch.no_grad():
        made = [AutoImageProcessor.from_pretrained(folder)(images=image, return_tensors="pt") for image in images]
        return torch.cat([model(**each).logits for each in made]).double().numpy()


@pytest.fixture(scope="session")
def beit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_plain("beit", tmp_path_factory.mktemp("plain") / "beit")


def near(wanted: Any) -> float:
    """Sums in another order, of a batch and of one picture."""
    return 1e-5 * max(1.0, float(np.abs(wanted).max()))


@pytest.mark.usefixtures("isolating")
def test_a_classifier_of_a_type_that_is_in_no_list_is_judged_as_the_library_does(
    beit: Path, pictures: Pictures
) -> None:
    scorer: Any = open_scorer(f"classifier:{beit}", pictures, device="cpu", cache=None, batch_size=4)
    wanted = own_logits(beit, pictures)
    np.testing.assert_allclose(scorer.outputs(), wanted, atol=near(wanted))
    assert wanted.std(axis=0).max() > 100 * near(wanted), "the pictures matter"
    assert scorer.note == "opened by transformers' own class for beit, in a process of its own"
    assert scorer.preparation == "classifier/1 plain 1", "its numbers are cached as of this way"


@pytest.mark.usefixtures("isolating")
@pytest.mark.nightly
def test_a_model_of_a_type_that_is_in_no_list_is_judged_with_its_adapter(
    beit: Path, tmp_path: Path, pictures: Pictures
) -> None:
    from transformers import AutoModelForImageClassification

    model = AutoModelForImageClassification.from_pretrained(beit)
    settings = {
        "target_modules": r"(?!classifier).*\.[\d]{1,}\..*(?:query|q_proj|fc1)",
        "modules_to_save": ["classifier"],
    }
    adapted = save_adapter(model, tmp_path / "adapter", **settings)
    merged = Path(shutil.copytree(beit, tmp_path / "merged"))
    adapted.merge_and_unload().save_pretrained(merged)
    uri = f"peft:{tmp_path / 'adapter'}?base=classifier:{beit}"
    scorer: Any = open_scorer(uri, pictures, device="cpu", cache=None, batch_size=4)
    wanted = own_logits(merged, pictures)
    np.testing.assert_allclose(scorer.outputs(), wanted, atol=near(wanted))
    assert np.abs(wanted - own_logits(beit, pictures)).max() > 100 * near(wanted)
    assert "rank 4" in scorer.note
    assert scorer.fingerprint != open_scorer(f"classifier:{beit}", pictures, device="cpu", cache=None).fingerprint


def test_the_process_is_told_of_the_adapter_with_its_files_and_digests(beit: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForImageClassification

    from fairgate.models.checkpoints import adapting, find_adapter

    model = AutoModelForImageClassification.from_pretrained(beit)
    save_adapter(model, tmp_path / "adapter", target_modules=["classifier"])
    shutil.copy(beit / "preprocessor_config.json", tmp_path / "adapter")
    with adapting(find_adapter(tmp_path / "adapter"), "peft:adapter"):
        found = find_plain(beit, None, "classifier")
    assert found.files.paths["preprocessor_config.json"].parent == tmp_path / "adapter"
    told = pickle.loads(pickle.dumps(found))
    assert told.adapter is not None
    assert found.adapter is not None
    assert (told.adapter.path, told.adapter.config) == (found.adapter.path, found.adapter.config)
    assert told.fingerprint == found.fingerprint


@pytest.mark.usefixtures("isolating")
@pytest.mark.nightly
def test_pictures_that_another_process_prepared_are_classified(beit: Path, tmp_path: Path, pictures: Pictures) -> None:
    turned = Path(shutil.copytree(beit, tmp_path / "turned"))
    settings = json.loads((turned / "preprocessor_config.json").read_text())
    (turned / "preprocessor_config.json").write_text(json.dumps({**settings, "image_mean": [0.1, 0.2, 0.3]}))
    ours, theirs = (open_scorer(f"classifier:{one}", pictures, device="cpu", cache=None) for one in (beit, turned))
    mixed: Any = ours.reading_as(theirs, tokenizer=False, preprocessing=True)  # type: ignore[attr-defined]
    wanted = own_logits(turned, pictures)  # the same weights
    np.testing.assert_allclose(mixed.outputs(), wanted, atol=near(wanted))
    assert np.abs(wanted - own_logits(beit, pictures)).max() > 100 * near(wanted)


def test_a_type_that_the_library_gains_later_is_judged_without_a_change(
    tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    import transformers as t
    from transformers.models.auto import configuration_auto, modeling_auto

    monkeypatch.setitem(sys.modules, "transformers", t)  # saving a class of somebody else replaces it

    class LaterConfig(t.PretrainedConfig):
        model_type = "later"

    class LaterForImageClassification(t.PreTrainedModel):
        config_class, main_input_name = LaterConfig, "pixel_values"

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.mixed = torch.nn.Conv2d(3, 4, 8, stride=8)
            self.head = torch.nn.Linear(4, config.num_labels)
            self.post_init()

        def forward(self, pixel_values: Any) -> Any:
            logits = self.head(torch.relu(self.mixed(pixel_values)).mean(dim=(2, 3)))
            return t.modeling_outputs.ImageClassifierOutput(logits=logits)

    named = {"id2label": dict(enumerate(LABELS)), "label2id": {name: place for place, name in enumerate(LABELS)}}
    random(lambda: LaterForImageClassification(LaterConfig(**named))).save_pretrained(tmp_path / "later")
    processor("ViTImageProcessor").save_pretrained(tmp_path / "later")
    with pytest.raises(ModelError, match="later"):  # this transformers does not know it
        transformers_classifier.load(find_plain(tmp_path / "later", None, "classifier"), CPU)
    # what a release of transformers that has the type brings
    monkeypatch.setitem(configuration_auto.CONFIG_MAPPING._extra_content, "later", LaterConfig)
    names = modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    monkeypatch.setitem(names, "later", LaterForImageClassification.__name__)
    library = sys.modules["transformers"]
    monkeypatch.setattr(library, LaterForImageClassification.__name__, LaterForImageClassification, raising=False)
    assert is_plain(tmp_path / "later", "ForImageClassification", "classifier")
    loaded = transformers_classifier.load(find_plain(tmp_path / "later", None, "classifier"), CPU)
    model: Any = LaterForImageClassification.from_pretrained(tmp_path / "later").eval()
    images = [Image.open(io.BytesIO(blob)) for blob in pictures.blobs]
    prepare: Any = t.AutoImageProcessor.from_pretrained(tmp_path / "later")
    with scoring(CPU):
        wanted = torch.cat(
            [model(prepare(images=image, return_tensors="pt")["pixel_values"]).logits for image in images]
        )
        np.testing.assert_allclose(loaded.outputs([loaded.prepare(image) for image in images]), wanted, atol=1e-5)
    assert wanted.std(dim=0).max() > 1e-3


@pytest.mark.nightly
@pytest.mark.parametrize("kind", list(CLASSIFIERS))
def test_every_type_gives_the_librarys_logits(kind: str, tmp_path: Path, pictures: Pictures) -> None:
    folder = save_plain(kind, tmp_path / kind)
    loaded = transformers_classifier.load(find_plain(folder, None, "classifier"), CPU)
    wanted = own_logits(folder, pictures)
    with scoring(CPU):
        found = loaded.outputs([loaded.prepare(Image.open(io.BytesIO(blob))) for blob in pictures.blobs])
    np.testing.assert_allclose(found, wanted, atol=near(wanted))
    assert wanted.std(axis=0).max() > 100 * near(wanted)


@pytest.mark.parametrize("kind", some(list(TOWERS), few=1))
def test_two_towers_of_a_type_that_is_in_no_list_give_the_librarys_logits(
    kind: str, tmp_path: Path, pictures: Pictures
) -> None:
    import torch
    from transformers import AutoModel

    folder = save_towers(kind, tmp_path / "towers")
    encoder = load_towers(find_plain(folder, None, "hf"), CPU)
    prompts = ["a photo of a doctor", "nurse"]
    images = [encoder.prepare(Image.open(io.BytesIO(blob))) for blob in pictures.blobs]
    tokens = tiny_tokenizer()(prompts, return_tensors="pt", padding=True)
    with torch.no_grad():
        model = AutoModel.from_pretrained(folder).eval()
        wanted = model(**tokens, pixel_values=torch.stack(images)).logits_per_image.double().numpy()
    with scoring(CPU):
        made = encoder.encode_images(images), encoder.encode_tokens(encoder.tokens(prompts))
    towers = [each / np.linalg.norm(each.astype(np.float64), axis=1, keepdims=True) for each in made]
    np.testing.assert_allclose(encoder.scale * towers[0] @ towers[1].T + encoder.bias, wanted, atol=10 * near(wanted))


def test_towers_whose_own_logits_are_no_scaled_cosine_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    folder = save_towers("MetaCLIP 2", tmp_path / "towers")
    forward = transformers.MetaClip2Model.forward

    def other(self: Any, *given: Any, **named: Any) -> Any:
        outputs = forward(self, *given, **named)
        outputs.logits_per_image = outputs.logits_per_image.sort(dim=1).values
        return outputs

    monkeypatch.setattr(transformers.MetaClip2Model, "forward", other)
    with pytest.raises(ModelError, match="its own logits are not those of its features"):
        load_towers(find_plain(folder, None, "hf"), CPU)


@pytest.mark.parametrize("make", some([gemma3, mistral3], few=1))
def test_a_language_model_of_a_type_without_a_layout_answers_as_the_library_does(
    make: Callable[[Any], tuple[Any, Any]], tmp_path: Path, pictures: Pictures
) -> None:
    import torch

    folder = save_seeing(make, tmp_path / "seeing")
    loaded = open_seeing(find_plain(folder, None, "vlm"), Asking("{image}a photo of a", "sum"), CPU, 0)
    image = Image.open(io.BytesIO(pictures.blobs[0])).convert("RGB")
    labels = ["doctor", "line cook"]
    with scoring(CPU):
        tokens = loaded.tokens(labels)
        (likelihoods,) = loaded.log_likelihoods([loaded.inputs(image)], tokens)
        answer = loaded.answers([loaded.inputs(image)], 4)
    model, processor, wanted = loaded.model, loaded.processor, []
    content = [{"type": "image", "image": image}, {"type": "text", "text": "a photo of a"}]
    asked = processor.apply_chat_template(
        [{"role": "user", "content": content}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    with torch.no_grad():
        for label, ids in zip(labels, tokens, strict=True):
            text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
            whole = processor(text=[f"{text} {label}"], images=[image], return_tensors="pt", add_special_tokens=False)
            assert whole["input_ids"][0].tolist() == asked["input_ids"][0].tolist() + ids, "labels follow the prompt"
            rows = torch.log_softmax(model(**whole).logits[0].double(), dim=-1)
            last = whole["input_ids"].shape[1] - len(ids)
            wanted.append(sum(float(rows[last + place - 1, token]) for place, token in enumerate(ids)))
        made = model.generate(**asked, do_sample=False, max_new_tokens=4)[0, asked["input_ids"].shape[1] :]
    np.testing.assert_allclose(likelihoods, wanted, rtol=1e-5)
    assert answer == [processor.tokenizer.decode(made, skip_special_tokens=True).strip()]


def test_a_model_with_a_decoder_of_its_own_answers_as_the_library_does(tmp_path: Path, pictures: Pictures) -> None:
    import torch

    folder = save_seeing(florence2, tmp_path / "seeing")
    loaded = open_seeing(find_plain(folder, None, "vlm"), Asking("{image}a photo of a", "sum"), CPU, 0)
    image = Image.open(io.BytesIO(pictures.blobs[0])).convert("RGB")
    given = loaded.processor(images=[image], text=["a photo of a"], return_tensors="pt")
    with scoring(CPU):
        tokens = loaded.tokens(["doctor", "line cook"])
        (likelihoods,) = loaded.log_likelihoods([loaded.inputs(image)], tokens)
        answer = loaded.answers([loaded.inputs(image)], 4)
    with torch.no_grad():
        losses = [float(loaded.model(**given, labels=torch.tensor([ids])).loss) * len(ids) for ids in tokens]
        made = loaded.model.generate(**given, do_sample=False, max_new_tokens=4)[0]
    np.testing.assert_allclose(-likelihoods, losses, rtol=1e-5)
    assert answer == [loaded.tokenizer.decode(made, skip_special_tokens=True).strip()]


@pytest.mark.parametrize("make", some([gemma3, qwen3_5, mistral3, florence2], few=1))
def test_labels_that_share_a_prompt_have_the_numbers_of_a_forward_pass_each(
    make: Callable[[Any], tuple[Any, Any]], tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_seeing(make, tmp_path / "seeing")
    loaded = open_seeing(find_plain(folder, None, "vlm"), Asking("{image}a photo of a", "sum"), CPU, 0)
    shown = [loaded.inputs(Image.open(io.BytesIO(blob)).convert("RGB")) for blob in pictures.blobs[:3]]
    tokens = loaded.tokens(["doctor", "line cook", "physician assistant"])
    with scoring(CPU):
        assert loaded.shares
        wanted = loaded._plainly(shown, tokens)
        for room in (1 << 29, 1):  # all labels at once, and each after the other
            monkeypatch.setattr(engine, "_CACHE_BYTES", room)
            np.testing.assert_allclose(loaded.log_likelihoods(shown, tokens), wanted, atol=1e-4)
        together = loaded.answers(shown, 4)
        loaded.shares = False
        assert loaded.answers(shown, 4) == together


def test_pictures_that_change_places_in_a_batch_are_shown_alone_however_long_their_prompt_is(
    tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    forward = transformers.Gemma3ForConditionalGeneration.forward

    @functools.wraps(forward)  # `generate` reads its parameters
    def exchanging(self: Any, *given: Any, **named: Any) -> Any:
        outputs = forward(self, *given, **named)
        if named.get("pixel_values") is not None:
            outputs.logits = outputs.logits.flip(0)
        return outputs

    folder = save_seeing(gemma3, tmp_path / "seeing")
    monkeypatch.setattr(transformers.Gemma3ForConditionalGeneration, "forward", exchanging)
    monkeypatch.setattr(engine, "_SCORED_TOKENS", 1)  # as of prompts of 2,000 tokens, which are scored alone
    loaded = open_seeing(find_plain(folder, None, "vlm"), Asking("{image}a photo of a", "sum"), CPU, 0)
    shown = [loaded.inputs(Image.open(io.BytesIO(blob)).convert("RGB")) for blob in pictures.blobs[:3]]
    with scoring(CPU):
        assert not loaded.shares
        assert loaded.answers(shown, 4) == [loaded.answers([each], 4)[0] for each in shown]


@pytest.mark.usefixtures("seeing_here")
@pytest.mark.parametrize("fault", some(["other numbers of padded labels", "other numbers", "none"], few=1))
def test_where_a_shared_prompt_gives_other_numbers_each_label_has_a_forward_pass_and_the_record_names_it(
    fault: str, tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    forward = transformers.Gemma3ForConditionalGeneration.forward

    def forgetful(self: Any, *given: Any, past_key_values: Any = None, **named: Any) -> Any:
        if past_key_values is not None and fault == "none":
            raise TypeError("past_key_values")
        if past_key_values is not None and fault.endswith("padded labels") and bool((named["input_ids"] != 0).all()):
            named["past_key_values"] = past_key_values
        return forward(self, *given, **named)

    folder = save_seeing(gemma3, tmp_path / "seeing")
    uri, cache = f"vlm:{folder}?prompt=a photo of a", EmbeddingCache(tmp_path / "cache")
    wanted: Any = open_scorer(uri, pictures, device="cpu", cache=None)
    likelihoods = wanted.log_likelihoods(["doctor", "line cook"])
    assert "labels share a pass" in wanted.note
    monkeypatch.setattr(transformers.Gemma3ForConditionalGeneration, "forward", forgetful)
    model: Any = open_scorer(uri, pictures, device="cpu", cache=cache, seed=0x01234567)
    np.testing.assert_allclose(model.log_likelihoods(["doctor", "line cook"]), likelihoods, atol=1e-4)
    assert "a forward pass for each picture and label" in model.note
    assert "tried on noise and words that the base commit 01234567 draws" in model.note
    again: Any = open_scorer(uri, pictures, device="cpu", cache=cache)
    assert again.note == model.note, "also of a run that has its numbers from the cache"


def test_a_text_that_is_longer_than_was_tried_and_than_a_window_shares_no_prompt(
    tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_seeing(gemma3, tmp_path / "seeing")
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["sliding_window"] = 8
    (folder / "config.json").write_text(json.dumps(config))
    loaded = open_seeing(find_plain(folder, None, "vlm"), Asking("{image}a photo of a", "sum"), CPU, 0)
    shown = [loaded.inputs(Image.open(io.BytesIO(pictures.blobs[0])).convert("RGB"))]
    short, long = loaded.tokens(["line cook", "line cook " * 40])
    with scoring(CPU):
        assert loaded.shares
        monkeypatch.setattr(loaded, "_plainly", lambda *_: "each alone")
        assert loaded.log_likelihoods(shown, [short, long]) == "each alone"
        assert loaded.log_likelihoods(shown, [short]) != "each alone"


@pytest.mark.usefixtures("isolating")
@pytest.mark.nightly
def test_a_language_model_is_judged_in_the_isolated_process(tmp_path: Path, pictures: Pictures) -> None:
    folder = save_seeing(gemma3, tmp_path / "seeing")
    model: Any = open_scorer(f"vlm:{folder}?prompt=a photo of a", pictures, device="cpu", cache=None)
    here = open_seeing(find_plain(folder, None, "vlm"), Asking("{image}a photo of a", "sum"), CPU, 0)
    first = Image.open(io.BytesIO(pictures.blobs[0])).convert("RGB")
    with scoring(CPU):
        (wanted,) = here.log_likelihoods([here.inputs(first)], here.tokens(["doctor", "nurse"]))
        said = here.answers([here.inputs(first)], 4)
    np.testing.assert_allclose(model.log_likelihoods(["doctor", "nurse"])[0], wanted, rtol=1e-5)
    asked: Any = open_scorer(f"vlm:{folder}?chat={{question}}", pictures, device="cpu", cache=None)
    assert asked.answer(["a photo of a"] * len(pictures.blobs), 4)[0] == said[0]


def test_a_changed_chat_template_is_another_reading(tmp_path: Path, pictures: Pictures) -> None:
    folder = save_seeing(gemma3, tmp_path / "seeing")
    uri = f"vlm:{folder}?prompt=a photo of a"
    before: Any = open_scorer(uri, pictures, device="cpu", cache=None)
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text() + "{{ 'doctor' }}")
    after: Any = open_scorer(uri, pictures, device="cpu", cache=None)
    assert before.tokenizer != after.tokenizer
    assert before.fingerprint != after.fingerprint


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ 'doctor' * 100000 }}", "writes 600,000 characters"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
    ],
    ids=["long", "reaching out"],
)
def test_a_chat_template_is_limited(template: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=problem):
        seeing_with(template, tmp_path).tokens(["doctor"])


def test_a_process_ends_with_a_chat_template_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeing, "_PATIENCE", 0.2)
    loaded = seeing_with("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", tmp_path)
    process = multiprocessing.get_context("fork").Process(target=loaded.tokens, args=(["doctor"],))
    process.start()
    process.join(60)
    assert process.exitcode == 1


def seeing_with(template: str, place: Path) -> seeing.VisionLanguage:
    folder = save_seeing(gemma3, place / "seeing")
    (folder / "chat_template.jinja").write_text(template)
    return open_seeing(find_plain(folder, None, "vlm"), Asking("{image}Who?", "sum"), CPU, 0)


def test_a_fingerprint_holds_every_file_that_a_library_may_read(beit: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(beit, tmp_path / "model"))
    before = find_plain(folder, None, "hf")
    (folder / "README.md").write_text("words")
    (folder / "trainer_state.json").write_text("{}")
    assert find_plain(folder, None, "hf").fingerprint == before.fingerprint
    (folder / "words.model").write_text("pieces")
    after = find_plain(folder, None, "hf")
    assert after.fingerprint != before.fingerprint
    assert folder / "words.model" in after.tokenizer_files, "a tokenizer's file may have any name"


def test_weights_that_a_library_would_round_on_some_devices_are_refused(beit: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(beit, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "fp8"}}))
    with pytest.raises(ModelError, match="quantized"):
        find_plain(folder, None, "classifier")


def test_code_of_a_models_own_is_refused_with_the_tables_that_always_work(beit: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(beit, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoConfig": "x.Y"}}))
    with pytest.raises(ModelError, match="names code of its own") as refused:
        find_plain(folder, None, "classifier")
    assert "labels:" in str(refused.value.remedy)


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("tokenizer_config.json", "model_max_length", 5),
        ("tokenizer_config.json", "processor_class", "LlavaProcessor"),
        ("processor_config.json", "processor_class", "LlavaProcessor"),
        ("processor_config.json", "chat_template", "{{ messages }}"),
        ("chat_template.json", "chat_template", "{{ messages }}"),
    ],
)
def test_what_a_library_takes_from_any_of_a_folders_configs_is_part_of_how_it_reads_texts(
    file: str, key: str, value: Any, beit: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(beit, tmp_path / "model"))
    (folder / file).write_text("{}")
    before = folder_tokenizer(find_plain(folder, None, "vlm"))
    (folder / file).write_text(json.dumps({key: value}))
    assert folder_tokenizer(find_plain(folder, None, "vlm")) != before


def test_a_named_processors_files_take_the_place_of_all_of_a_folders_own(beit: Path, tmp_path: Path) -> None:
    folder, other = (Path(shutil.copytree(beit, tmp_path / name)) for name in ("model", "processor"))
    for name in ("tokenizer.json", "chat_template.jinja", "words.model"):
        (folder / name).write_text("{}")
    (other / "vocab.txt").write_text("a")
    (other / "chat_template.jinja").write_text("b")
    paths = find_plain(folder, other, "vlm").files.paths
    assert {name: path.parent.name for name, path in paths.items() if not name.startswith("weights")} == {
        "config.json": "model",
        "chat_template.jinja": "processor",
        "preprocessor_config.json": "processor",
        "vocab.txt": "processor",
    }


def test_a_type_that_is_no_text_is_in_no_list(tmp_path: Path) -> None:
    config = {"model_type": ["vit"], "architectures": ["ViTForImageClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert is_plain(tmp_path, "ForImageClassification", "classifier")


def test_other_weights_than_the_models_own_are_refused(beit: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(beit, tmp_path / "model"))
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="other weights than the model's own"):
        find_plain(folder, None, "classifier")


@pytest.mark.usefixtures("isolating")
@pytest.mark.parametrize("kernel", ["this kernel", "without Landlock", "with a GPU's driver"])
def test_the_process_reaches_its_files_and_nothing_else(kernel: str, tmp_path: Path) -> None:
    done = given_up(tmp_path, kernel)
    told = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if not line.startswith("missing"))
    its_own = {"its own file", "its own folder", "a thread", "begun", "its own limits", "a pair"}
    by_landlock = {"another file", "another file, from C", "to write its file", "the parent's secrets"}
    of_drivers = {"a local socket", "its name", "to listen", "a thread's name"}
    more = {"without Landlock": by_landlock | {"a thread's name"}, "with a GPU's driver": of_drivers}.get(kernel, set())
    assert {name for name, answer in told.items() if answer == "yes"} - more == its_own
    assert more - by_landlock <= {name for name, answer in told.items() if answer == "yes"}
    assert len(told) == 48


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's")
def test_the_process_ends_when_the_parent_is_killed() -> None:
    child_lines = GIVEN_UP.split("missing =", maxsplit=1)[0].split("if sys.argv", maxsplit=1)[0] + (
        "sandbox._go_first(os.getppid())\nprint('ready', flush=True)\nimport time\ntime.sleep(60)"
    )
    lines = f"import subprocess, sys\nsubprocess.run([sys.executable, '-I', '-c', {child_lines!r}, sys.argv[1]])"
    arguments = [sys.executable, "-I", "-c", lines, str(child._SCRIPT)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()
        assert parent.stdout.read() == b"", "nobody has the pipe any more"


def test_nothing_is_opened_in_ci_where_the_machine_cannot_isolate() -> None:
    settings = json.dumps(
        {"readable": [], "writable": "", "path": [], "strict": True, "parent": None, "length": 7}
    ).encode()
    lines = (
        GIVEN_UP.split("if sys.argv", maxsplit=1)[0] + "sandbox.restrict = lambda *_: ['the network']\nsandbox.main()"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", lines, str(child._SCRIPT)],
        input=settings + b"\nno code",
        capture_output=True,
        check=True,
    )
    assert messages.receive(io.BytesIO(done.stdout)) == {"missing": ["the network"]}


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., child.IsolatedModel]]:
    """Starts a process that runs the given lines instead of opening a model."""
    started: list[child.IsolatedModel] = []

    def start(lines: str) -> child.IsolatedModel:
        script = tmp_path / "script.py"
        head = f"import json, os, struct, sys, time\nsys.path.insert(0, {str(Path(messages.__file__).parent)!r})\n"
        script.write_text(head + "sys.stdin.buffer.readline()\nout = sys.stdout.buffer\n" + lines)
        monkeypatch.setattr(child, "_SCRIPT", script)
        started.append(child.IsolatedModel("hf:model", dict, []))
        return started[-1]

    yield start
    for each in started:
        each.close()


def framed(content: str, arrays: str = "[]") -> str:
    return (
        f"h = json.dumps({{'content': json.dumps({content}), 'arrays': {arrays}}}).encode()\n"
        "out.write(struct.pack('<I', len(h)) + h); out.flush()\n"
    )


OPENED = framed("{'missing': []}")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("os.kill(os.getpid(), 9)", "ended early \\(signal 9"),
        ("print('a library breaks', file=sys.stderr); sys.exit(3)", "ended early .*a library breaks"),
        ("import faulthandler as f; f.dump_traceback_later(0.1, exit=True); time.sleep(60)", "Timeout \\(0:00:00"),
        ("import fcntl; os.write(2, b' ' * 5000); fcntl.fcntl(2, fcntl.F_SETFL, os.O_DIRECT)", "ended early"),
        ("out.write(struct.pack('<I', 1 << 30)); out.flush(); time.sleep(60)", "ended early \\(ValueError"),
        ("out.write(b'\\x05\\0\\0\\0\\x80\\x04K\\x01.'); out.flush(); time.sleep(60)", "ended early"),
        (framed("{}", "[['|O8', [1]]]") + "time.sleep(60)", "ended early \\(ValueError"),
        (framed("{}", "[['<f4', [1 << 40]]]") + "time.sleep(60)", "ended early \\(ValueError"),
        (framed("{}", "[['<f4', [-1]]]") + "time.sleep(60)", "ended early \\(ValueError"),
        (framed("{'@array': 0}", "[['<f4', [0]]]") + "time.sleep(60)", "ended early \\(ValueError"),
        (framed("{'a': {'@array': 'x'}}") + "time.sleep(60)", "ended early \\(KeyError"),
        (framed("[{'@array': 0}] * 2", "[['<f4', [0]]]") + "time.sleep(60)", "ended early \\(KeyError"),
        ("out.write(struct.pack('<I', 99999) + b'[' * 99999); out.flush(); time.sleep(60)", "\\(RecursionError"),
        ("os.close(1); time.sleep(60)", "ended early \\(signal 9"),
        (framed("{'error': 'E', 'words': 'w', 'doing': '\\x1b[31mno'}"), "no \\(E: w\\)"),
        (framed("{'error': 'OSError', 'words': 'no \\x1b[31mfile'}"), "OSError: no .?\\[?.*file"),
    ],
    ids=[
        *("killed", "broken", "a slow step", "errors that cannot be read"),
        *("too long", "pickled", "objects", "too large", "a negative size"),
        *("an array for a message", "no place of an array", "an array twice"),
        *("too deep", "silent and alive", "an error of its own words", "an error"),
    ],
)
def test_a_process_that_breaks_or_answers_nonsense_is_a_models_error(
    lines: str, problem: str, answering: Callable[..., child.IsolatedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_LAST", 0.2)
    with pytest.raises(ModelError, match=problem) as caught:
        answering(lines)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "lines", ["", OPENED, OPENED + "out.write(b'.'); out.flush()\n"], ids=["opening", "asked", "slow"]
)
def test_a_process_that_does_not_answer_is_ended_after_the_machines_limit(
    lines: str, answering: Callable[..., child.IsolatedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRGATE_MODEL_TIMEOUT", "0.25")
    with pytest.raises(ModelError, match=r"has not answered for 0\.25 seconds") as caught:
        answering(lines + "time.sleep(60)").ask("pictures", [np.zeros(1 << 20, np.uint8)])
    assert "FAIRGATE_MODEL_TIMEOUT=SECONDS" in str(caught.value.remedy)


def test_a_limit_that_is_no_number_of_seconds_is_refused(
    answering: Callable[..., child.IsolatedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRGATE_MODEL_TIMEOUT", "soon")
    with pytest.raises(ModelError, match="'soon', which is no number of seconds"):
        answering(OPENED)


def test_a_process_that_was_lost_is_not_asked_again(answering: Callable[..., child.IsolatedModel]) -> None:
    model = answering(OPENED)
    for _ in range(2):
        with pytest.raises(ModelError, match="ended early"):
            model.ask("pictures", [])
    model.close()
    with pytest.raises(ModelError, match="ended early"):
        model.tell("keep", 0)


def waiting_model() -> messages.Opened:
    done = threading.Event()
    return {}, {"keep": done.set, "likelihoods": lambda: done.wait(10)}


def test_pictures_are_prepared_while_a_question_about_others_is_answered() -> None:
    (asked, asking), (told, telling) = os.pipe(), os.pipe()
    with os.fdopen(asked, "rb") as questions, os.fdopen(told, "rb") as answers, os.fdopen(telling, "wb") as telling_:
        thread = threading.Thread(target=messages.serve, args=(pickle.dumps(waiting_model), [], questions, telling_))
        thread.start()
        with os.fdopen(asking, "wb") as writing:
            for question in (("likelihoods", (), True, False), ("keep", (), False, True)):
                pickle.dump(question, writing)
        assert [messages.receive(answers) for _ in range(2)] == [{"missing": []}, {"answer": True}]
        thread.join()


def kept_for(device: Device, model: Any, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Callable[..., Any]]:
    """What a process with a model that sees answers on a device, which need not be there."""
    monkeypatch.setattr(seeing, "open_seeing", lambda *_: model)
    monkeypatch.setattr(host, "require_device", lambda _: None)
    return host.opened("vlm", None, device, None, 0)[1]


def test_a_picture_that_cannot_be_prepared_is_an_error_of_its_question_and_memory_may_be_short_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Model:
        shares, unused, tokens, log_likelihoods = True, (), None, None

        def inputs(self, _: Image.Image, message: str | None) -> str:
            if message is None:
                raise ModelError("no token for the picture")
            assert not torch.backends.cudnn.deterministic, "it would end what the other thread began"
            return message

        def answers(self, shown: list[str], longest: int) -> list[str]:
            assert torch.backends.cudnn.deterministic
            if len(shown) > longest:
                raise torch.OutOfMemoryError
            return shown

    functions = kept_for(Device("cuda", "bf16"), Model(), monkeypatch)
    for number, message in enumerate(("a", "b", None)):
        functions["keep"](number, np.zeros((2, 2, 3), np.uint8), message)
    with pytest.raises(torch.OutOfMemoryError):
        functions["answers"]([0, 1], 1)
    assert functions["answers"]([0], 1) + functions["answers"]([1], 1) == ["a", "b"]
    with pytest.raises(ModelError, match="no token for the picture"):
        functions["answers"]([2], 1)


def test_pictures_are_forgotten_when_later_ones_are_asked_about_and_made_again_if_memory_was_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    class Model:
        shares, unused, tokens, log_likelihoods = True, (), None, None

        def inputs(self, _: Image.Image, message: str) -> str:
            made.append(message)
            if message == "short" and made.count(message) == 1:
                raise torch.OutOfMemoryError
            return message

        def answers(self, shown: list[str], _: int) -> list[str]:
            return shown

    functions = kept_for(Device("cuda", "bf16"), Model(), monkeypatch)
    for number, message in enumerate(("a", "short", "b")):
        functions["keep"](number, np.zeros((2, 2, 3), np.uint8), message)
    assert functions["answers"]([1, 2], 1) == ["short", "b"]
    with pytest.raises(KeyError):
        functions["answers"]([0], 1)
    assert made == ["a", "short", "b", "short"]


def test_memory_that_is_short_for_a_picture_itself_is_an_error_of_its_question_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Model:
        shares, unused, tokens, log_likelihoods = True, (), None, None

        def inputs(self, _: Image.Image, message: str) -> str:
            assert torch.are_deterministic_algorithms_enabled()
            return message

        def answers(self, shown: list[str], _: int) -> list[str]:
            return shown

    def short(_: Any) -> Image.Image:
        raise MemoryError

    functions = kept_for(CPU, Model(), monkeypatch)
    functions["keep"](0, np.zeros((2, 2, 3), np.uint8), "a")
    monkeypatch.setattr(Image, "fromarray", short)
    functions["keep"](1, np.zeros((2, 2, 3), np.uint8), "b")
    assert functions["answers"]([0], 1) == ["a"]
    with pytest.raises(MemoryError):
        functions["answers"]([1], 1)
    monkeypatch.undo()
    assert functions["answers"]([1], 1) == ["b"]


def test_pictures_are_let_go_as_soon_as_they_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures: list[weakref.ref[Image.Image]] = []

    class Model:
        shares, unused, tokens, log_likelihoods = True, (), None, None

        def inputs(self, picture: Image.Image, message: str) -> str:
            pictures.append(weakref.ref(picture))
            return message

        def answers(self, shown: list[str], _: int) -> list[str]:
            return shown

    functions = kept_for(CPU, Model(), monkeypatch)
    for number, message in enumerate(("a", "b")):
        functions["keep"](number, np.zeros((2, 2, 3), np.uint8), message)
    gc.collect()
    assert [picture() for picture in pictures] == [None, None]
    assert functions["answers"]([0, 1], 1) == functions["answers"]([0, 1], 1) == ["a", "b"]
    assert len(pictures) == 2


def test_what_is_told_is_done_in_order_by_the_thread_that_answers_and_few_questions_wait_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, threads, ahead = list[int](), set[str](), list[int]()
    questions, ends = io.BytesIO(), list[int]()
    for number in range(8):
        pickle.dump(("keep", (number,), False, False), questions)
        ends.append(questions.tell())
    pickle.dump(("answers", (), True, False), questions)
    questions.seek(0)

    def keep(number: int) -> None:
        time.sleep(0.05)  # as long as the thread that reads would need for all
        kept.append(number)
        threads.add(threading.current_thread().name)
        ahead.append(sum(end <= questions.tell() for end in ends) - len(kept))

    monkeypatch.setattr(pickle, "loads", lambda model: model)
    written = io.BytesIO()
    messages.serve(lambda: ({}, {"keep": keep, "answers": lambda: kept}), [], questions, written)  # type: ignore[arg-type]
    written.seek(0)
    assert [messages.receive(written) for _ in range(2)] == [{"missing": []}, {"answer": list(range(8))}]
    assert threads == {threading.current_thread().name}
    assert max(ahead) == 3  # two that wait, and one in the reader's hand


def test_the_process_ends_when_it_can_read_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: failed.set())
    given = (pickle.dumps(waiting_model), [], io.BytesIO(b"no question"), io.BytesIO())
    thread = threading.Thread(target=messages.serve, args=given, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert failed.wait(5)


@pytest.mark.parametrize("shape", [[1] * 33, [0, 1 << 32]], ids=["many", "long"])
def test_sides_whose_product_takes_long_are_no_arrays(shape: list[int]) -> None:
    header = json.dumps({"content": "{}", "arrays": [["<f4", shape]]}).encode()
    with pytest.raises(ValueError, match="describes no array"):
        messages.receive(io.BytesIO(struct.pack("<I", len(header)) + header))


def test_numbers_of_one_picture_are_not_taken_for_those_of_two(answering: Callable[..., child.IsolatedModel]) -> None:
    one = (
        framed("{'answer': {'@array': 0}}", "[['<f4', [1, 3]]]") + "out.write(b'\\0' * 12); out.flush(); time.sleep(60)"
    )
    prepare, outputs = called._of(answering(OPENED + one))
    with pytest.raises(ModelError, match="answered 2 questions with numbers of shape"):
        outputs([prepare(Image.new("RGB", (2, 2))), prepare(Image.new("RGB", (2, 2)))])


def test_folders_that_a_process_left_are_removed_without_following_or_changing_others(
    answering: Callable[..., child.IsolatedModel], tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o500)
    lines = f"os.mkdir('closed', 0); os.symlink({str(target)!r}, 'link'); os.mkdir('d', 0o700)\n" + OPENED
    model = answering(lines + "time.sleep(60)")
    model.close()
    assert target.stat().st_mode & 0o777 == 0o500


def test_a_machine_that_cannot_isolate_is_refused_in_ci_and_named_elsewhere(
    answering: Callable[..., child.IsolatedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    cannot = framed("{'missing': ['the network']}") + "time.sleep(60)"
    monkeypatch.setenv("CI", "false")
    with pytest.warns(UserWarning, match="does not keep the model from the network"):
        answering(cannot)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(ModelError, match="in CI anybody may have written it"):
        answering(cannot)


def test_messages_are_read_as_they_were_written() -> None:
    stream = io.BytesIO()
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((0, 3), np.uint8), "c": np.array([True])}
    messages.send(stream, {"answer": [3, arrays]})
    stream.seek(0)
    number, found = messages.receive(stream)["answer"]
    assert number == 3
    assert all(np.array_equal(arrays[name], found[name]) and arrays[name].dtype == found[name].dtype for name in arrays)
    with pytest.raises(EOFError):
        messages.receive(io.BytesIO(struct.pack("<I", 10)))
    assert isolated.__all__
