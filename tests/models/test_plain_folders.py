"""Models of types that are in no list: transformers opens them, in a process that reaches nothing else."""

from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vlm_world
from classifier_world import LABELS, SMALL, processor
from hf_world import TEXT, VISION, tiny_tokenizer
from model_world import Pictures
from nightly import some
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.models import isolated, open_scorer, plain_towers
from fairgate.models.checkpoints import Device, find_plain, scoring
from fairgate.models.classifiers import transformers_classifier
from fairgate.models.isolated import child, messages
from fairgate.models.vlm import plain
from fairgate.models.vlm.plain import PlainVisionLanguage

CPU = Device("cpu", "fp32")
GIVEN_UP = """
import ctypes, importlib.util, os, socket, subprocess, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("sandbox", sys.argv[1])
sandbox = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sandbox)
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
tried("a local socket", lambda: libc.socket(1, 1, 0))
tried("a connection", lambda: socket.create_connection(("127.0.0.1", 9), 1))
tried("a program", lambda: subprocess.run([sys.executable, "-c", ""]))
tried("a program, from C", lambda: libc.execv(sys.executable.encode(), None))
tried("a signal", lambda: os.kill(os.getppid(), 0))
"""


def given_up(folder: Path) -> subprocess.CompletedProcess[str]:
    """What a process still reaches that gave up all but one file and one folder."""
    own, other, home = folder / "own.json", folder / "other.json", folder / "home"
    own.write_text("{}")
    other.write_text("secret")
    home.mkdir()
    lines = [sys.executable, "-I", "-c", GIVEN_UP, str(child._SCRIPT), str(own), str(home), str(other)]
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
TOWERS: dict[str, Callable[[Any], Any]] = {
    "AltCLIP": lambda t: t.AltCLIPModel(
        t.AltCLIPConfig(
            text_config={**TEXT, "project_dim": 32, "max_position_embeddings": 16},
            vision_config=VISION,
            projection_dim=12,
        )
    ),
    "MetaCLIP 2": lambda t: t.MetaClip2Model(
        t.MetaClip2Config(text_config=TEXT, vision_config=VISION, projection_dim=12)
    ),
    "a pair of towers": lambda t: t.VisionTextDualEncoderModel(
        t.VisionTextDualEncoderConfig.from_vision_text_configs(
            t.ViTConfig(**VISION), t.BertConfig(**TEXT), projection_dim=12
        )
    ),
}


def random(make: Callable[[], Any]) -> Any:
    """A model whose outputs depend on what it is given."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = make()
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                torch.nn.init.kaiming_normal_(parameter)
            elif parameter.ndim:
                torch.nn.init.normal_(parameter, mean=float(name.endswith("weight")), std=0.2)
    return model.eval()


def save_plain(kind: str, folder: Path) -> Path:
    import transformers

    config, model, images, settings = CLASSIFIERS[kind]
    named = {"id2label": dict(enumerate(LABELS)), "label2id": {name: place for place, name in enumerate(LABELS)}}
    random(lambda: getattr(transformers, model)(getattr(transformers, config)(**settings, **named))).save_pretrained(
        folder
    )
    processor(images).save_pretrained(folder)
    return folder


def save_towers(kind: str, folder: Path) -> Path:
    import transformers

    random(lambda: TOWERS[kind](transformers)).save_pretrained(folder)
    processor("CLIPImageProcessor").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
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
    assert scorer.note == "opened by transformers' own class for beit, in a process without network and other files"


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
    encoder = plain_towers.load(find_plain(folder, None, "hf"), CPU)
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
        plain_towers.load(find_plain(folder, None, "hf"), CPU)


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}USER: {% for c in m['content'] %}{% if c['type'] == 'image' %}IMAGE"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %} ASSISTANT:{% endfor %}"
)


def gemma3(t: Any) -> tuple[Any, Any]:
    marks = {"boi_token": "<img>", "eoi_token": "</img>", "image_token": "<image>"}
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    words = t.PreTrainedTokenizerFast(
        tokenizer_object=vlm_world.tokenizer()._tokenizer, extra_special_tokens=marks, **ends
    )
    config = t.Gemma3Config(
        text_config={**SEEING, "vocab_size": len(words), "head_dim": 16, "num_key_value_heads": 2},
        vision_config={**SEEING, "image_size": 32, "patch_size": 8},
        mm_tokens_per_image=4,
        image_token_index=vlm_world.SPECIAL.index("<image>"),
    )
    images = t.Gemma3ImageProcessor(size={"height": 32, "width": 32})
    template = TEMPLATE.replace("IMAGE", "<img>")
    processor = t.Gemma3Processor(images, words, image_seq_length=4, chat_template=template)
    return random(lambda: t.Gemma3ForConditionalGeneration(config)), processor


def mistral3(t: Any) -> tuple[Any, Any]:
    words = vlm_world.tokenizer()
    config = t.Mistral3Config(
        text_config={
            **SEEING,
            "model_type": "mistral",
            "vocab_size": len(words),
            "head_dim": 16,
            "num_key_value_heads": 2,
        },
        vision_config={**SEEING, "model_type": "pixtral", "image_size": 32, "patch_size": 8, "head_dim": 16},
        image_token_index=vlm_world.SPECIAL.index("<image>"),
        vision_feature_layer=-1,
        spatial_merge_size=1,
    )
    images = t.PixtralImageProcessor(size={"longest_edge": 32}, patch_size={"height": 8, "width": 8})
    template = TEMPLATE.replace("IMAGE", "<image>")
    marks = {"image_token": "<image>", "image_break_token": "<img>", "image_end_token": "</img>"}
    processor = t.PixtralProcessor(images, words, patch_size=8, chat_template=template, **marks)
    return random(lambda: t.Mistral3ForConditionalGeneration(config)), processor


def florence2(t: Any) -> tuple[Any, Any]:
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    marks = {"image_token": "<image>"}
    words = t.PreTrainedTokenizerFast(
        tokenizer_object=vlm_world.tokenizer()._tokenizer, extra_special_tokens=marks, **ends
    )
    layers = {f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in LAYERS.items()}
    config = t.Florence2Config(
        text_config={"model_type": "bart", "vocab_size": len(words), "d_model": 32, **layers, **IDS},
        vision_config={
            **{"embed_dim": [8, 16], "depths": [1, 1], "num_heads": [1, 2], "num_groups": [1, 2], "window_size": 4},
            **{"patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3, 1], "patch_prenorm": [False, True]},
            **{"projection_dim": 32, "max_position_embeddings": 10, "max_temporal_embeddings": 10},
        },
        image_token_id=vlm_world.SPECIAL.index("<image>"),
        is_encoder_decoder=True,
    )
    processor = t.Florence2Processor(vlm_world._clip_images(image_seq_length=17), words, num_additional_image_tokens=0)
    return random(lambda: t.Florence2ForConditionalGeneration(config)), processor


LAYERS = {"layers": 2, "attention_heads": 2, "ffn_dim": 48}
IDS = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
SEEING = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2},
    "max_position_embeddings": 512,
}


def save_seeing(make: Callable[[Any], tuple[Any, Any]], folder: Path) -> Path:
    import transformers

    for part in make(transformers):
        part.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("make", some([gemma3, mistral3], few=1))
def test_a_language_model_of_a_type_without_a_layout_answers_as_the_library_does(
    make: Callable[[Any], tuple[Any, Any]], tmp_path: Path, pictures: Pictures
) -> None:
    import torch

    folder = save_seeing(make, tmp_path / "seeing")
    loaded = PlainVisionLanguage(find_plain(folder, None, "vlm"), "{image}a photo of a", CPU)
    image = Image.open(io.BytesIO(pictures.blobs[0])).convert("RGB")
    labels = ["doctor", "line cook"]
    with scoring(CPU):
        tokens = loaded.tokens(labels)
        likelihoods = loaded.log_likelihoods(image, tokens)
        answer = loaded.answers([(image, "{image}a photo of a")], 4)
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
    loaded = PlainVisionLanguage(find_plain(folder, None, "vlm"), "{image}a photo of a", CPU)
    image = Image.open(io.BytesIO(pictures.blobs[0])).convert("RGB")
    given = loaded.processor(images=[image], text=["a photo of a"], return_tensors="pt")
    with scoring(CPU):
        tokens = loaded.tokens(["doctor", "line cook"])
        likelihoods = loaded.log_likelihoods(image, tokens)
        answer = loaded.answers([(image, "{image}a photo of a")], 4)
    with torch.no_grad():
        losses = [float(loaded.model(**given, labels=torch.tensor([ids])).loss) * len(ids) for ids in tokens]
        made = loaded.model.generate(**given, do_sample=False, max_new_tokens=4)[0]
    np.testing.assert_allclose(-likelihoods, losses, rtol=1e-5)
    assert answer == [loaded.tokenizer.decode(made, skip_special_tokens=True).strip()]


@pytest.mark.usefixtures("isolating")
@pytest.mark.nightly
def test_a_language_model_is_judged_in_the_isolated_process(tmp_path: Path, pictures: Pictures) -> None:
    folder = save_seeing(gemma3, tmp_path / "seeing")
    model: Any = open_scorer(f"vlm:{folder}?prompt=a photo of a", pictures, device="cpu", cache=None)
    here = PlainVisionLanguage(find_plain(folder, None, "vlm"), "{image}a photo of a", CPU)
    first = Image.open(io.BytesIO(pictures.blobs[0])).convert("RGB")
    with scoring(CPU):
        wanted = here.log_likelihoods(first, here.tokens(["doctor", "nurse"]))
        said = here.answers([(first, "{image}a photo of a")], 4)
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
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes more than"),
        ("{{ 'doctor' * 100000 }}", "writes 600,000 characters"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
    ],
    ids=["slow", "long", "reaching out"],
)
def test_a_chat_template_is_limited(
    template: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_seeing(gemma3, tmp_path / "seeing")
    (folder / "chat_template.jinja").write_text(template)
    monkeypatch.setattr(plain, "_PATIENCE", 1)
    loaded = PlainVisionLanguage(find_plain(folder, None, "vlm"), "{image}Who?", CPU)
    with pytest.raises(Exception, match=problem):
        loaded.tokens(["doctor"])


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


def test_code_of_a_models_own_is_refused_with_the_tables_that_always_work(beit: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(beit, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoConfig": "x.Y"}}))
    with pytest.raises(ModelError, match="names code of its own") as refused:
        find_plain(folder, None, "classifier")
    assert "labels:" in str(refused.value.remedy)


@pytest.mark.usefixtures("isolating")
def test_the_process_reaches_its_files_and_nothing_else(tmp_path: Path) -> None:
    done = given_up(tmp_path)
    told = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if not line.startswith("missing"))
    assert {name for name, answer in told.items() if answer == "yes"} == {"its own file", "its own folder"}
    assert len(told) == 12


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., child.IsolatedModel]]:
    """Starts a process that runs the given lines instead of opening a model."""
    started: list[child.IsolatedModel] = []

    def start(lines: str) -> child.IsolatedModel:
        script = tmp_path / "script.py"
        head = f"import json, os, struct, sys, time\nsys.path.insert(0, {str(Path(messages.__file__).parent)!r})\n"
        script.write_text(head + "sys.stdin.buffer.read(4)\nout = sys.stdout.buffer\n" + lines)
        monkeypatch.setattr(child, "_SCRIPT", script)
        started.append(child.IsolatedModel("hf:model", {}, []))
        return started[-1]

    yield start
    for each in started:
        each.close()


def framed(content: str, arrays: str = "[]") -> str:
    return (
        f"h = json.dumps({{'content': {content}, 'arrays': {arrays}}}).encode()\n"
        "out.write(struct.pack('<I', len(h)) + h); out.flush()\n"
    )


OPENED = framed("{'missing': []}")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("os.kill(os.getpid(), 9)", "ended early \\(signal 9"),
        ("print('a library breaks', file=sys.stderr); sys.exit(3)", "ended early .*a library breaks"),
        ("out.write(struct.pack('<I', 1 << 30)); out.flush(); time.sleep(60)", "ended early \\(ValueError"),
        ("out.write(b'\\x05\\0\\0\\0\\x80\\x04K\\x01.'); out.flush(); time.sleep(60)", "ended early"),
        (framed("{}", "[['a', '|O8', [1]]]") + "time.sleep(60)", "ended early \\(ValueError"),
        (framed("{}", "[['a', '<f4', [1 << 40]]]") + "time.sleep(60)", "ended early \\(ValueError"),
        (framed("{}", "[['a', '<f4', [-1]]]") + "time.sleep(60)", "ended early \\(ValueError"),
        (framed("{'error': 'OSError', 'words': 'no \\x1b[31mfile'}"), "OSError: no .?\\[?.*file"),
    ],
    ids=["killed", "broken", "too long", "pickled", "objects", "too large", "a negative size", "an error"],
)
def test_a_process_that_breaks_or_answers_nonsense_is_a_models_error(
    lines: str, problem: str, answering: Callable[..., child.IsolatedModel]
) -> None:
    with pytest.raises(ModelError, match=problem) as caught:
        answering(lines)
    assert "\x1b" not in str(caught.value)


def test_a_process_that_was_lost_is_not_asked_again(answering: Callable[..., child.IsolatedModel]) -> None:
    model = answering(OPENED)
    for problem in ("ended early", "has ended"):
        with pytest.raises(ModelError, match=problem):
            model.ask("pictures", {})


def test_a_machine_that_cannot_isolate_is_refused_in_ci_and_named_elsewhere(
    answering: Callable[..., child.IsolatedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    cannot = framed("{'missing': ['the network']}") + "time.sleep(60)"
    monkeypatch.setenv("CI", "false")
    assert "does not keep the model from the network" in answering(cannot).facts["note"]
    monkeypatch.setenv("CI", "true")
    with pytest.raises(ModelError, match="in CI anybody may have written it"):
        answering(cannot)


def test_messages_are_read_as_they_were_written() -> None:
    stream = io.BytesIO()
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((0, 3), np.uint8), "c": np.array([True])}
    messages.send(stream, {"what": "x", "n": 3}, arrays)
    stream.seek(0)
    content, found = messages.receive(stream)
    assert content == {"what": "x", "n": 3}
    assert all(np.array_equal(arrays[name], found[name]) and arrays[name].dtype == found[name].dtype for name in arrays)
    with pytest.raises(EOFError):
        messages.receive(io.BytesIO(struct.pack("<I", 10)))
    assert isolated.__all__
