"""A model is a closed folder: what is read was hashed and is in the folder or the libraries, and no hub is asked."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from closed_world import TOWERS, save_towers, text_config
from hf_world import save_folder, tiny_tokenizer
from model_world import PROMPTS, TINY, Pictures
from nightly import some
from safetensors.torch import save_file
from warm_python import warm_python

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer
from fairgate.models.checkpoints import find_folder, require_closed

HERE = Path(__file__).parent
TRACED = """
import json, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import huggingface_hub
huggingface_hub.constants.HF_HUB_OFFLINE, tempfile.tempdir = False, str(Path.cwd())
from model_world import PROMPTS, Pictures, encoded, picture
from fairgate.models import open_scorer

opened, network = set(), []

def hear(event, facts):
    if event == "open" and Path(str(facts[0])).exists():
        opened.add(str(facts[0]))
    if event.startswith("socket.") and event not in ("socket.__new__", "socket.gethostname"):
        network.append(f"{event} {facts[1:]}")

scorer = open_scorer(sys.argv[1], Pictures([encoded(picture(seed)) for seed in range(3)]), device="cpu", cache=None)
hashed = {path.name for path in scorer.checkpoint.load.args[0].files.paths.values()}
sys.addaudithook(hear)
scorer.logits(PROMPTS)
places = [str(Path(one).resolve()) for one in (sys.prefix, sys.base_prefix, sys.argv[2], "/proc", "/sys", "/dev")]
far = [one for one in opened if not one.isdigit() and not str(Path(one).resolve()).startswith(tuple(places))]
print(json.dumps({"opened": sorted(far), "hashed": sorted(hashed), "network": network}))
"""


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """URIs of honest models of every kind."""
    home = tmp_path_factory.mktemp("closed")
    towers = {kind: f"open_clip:local-dir:{save_towers(kind, home / kind)}" for kind in TOWERS}
    return {**towers, "clip": f"hf:{save_folder('clip', home / 'clip')}"}


def folder_of(uri: str) -> Path:
    return Path(uri.removeprefix("open_clip:local-dir:").removeprefix("hf:"))


@pytest.mark.parametrize("kind", some(["clip", "xlm-r", "convnext"], few=1))
def test_what_is_read_was_hashed_and_no_hub_is_asked(kind: str, folders: dict[str, str], tmp_path: Path) -> None:
    folder = folder_of(folders[kind])
    (folder / "README.md").write_text("not part of the model")
    package = Path(HERE).parents[2] / "fairgate"
    done = subprocess.run(
        [warm_python(), "-u", "-c", TRACED, folders[kind], str(package), str(HERE.parent)],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    traced = json.loads(done.stdout.splitlines()[-1])
    assert traced["network"] == []
    strangers = [one for one in traced["opened"] if not Path(one).resolve().is_relative_to(tmp_path.resolve())]
    inside = {Path(one).name for one in strangers if Path(one).is_relative_to(folder)}
    assert [one for one in strangers if not Path(one).is_relative_to(folder)] == []
    assert inside <= set(traced["hashed"])


@pytest.mark.parametrize("kind", ["xlm-r", "convnext", "siglip"])
def test_towers_of_other_libraries_score_from_their_folder_alone(
    kind: str, folders: dict[str, str], pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    import open_clip

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    scorer = open_scorer(folders[kind], pictures, device="cpu", cache=None)
    assert np.isfinite(scorer.logits(PROMPTS)).all()
    if kind != "xlm-r":  # the library alone would look its tower up on the hub
        model = open_clip.create_model(f"local-dir:{folder_of(folders[kind])}").eval()
        tokens = open_clip.get_tokenizer(f"local-dir:{folder_of(folders[kind])}")(PROMPTS)
        expected = model.encode_text(tokens, normalize=True).detach().numpy()
        np.testing.assert_allclose(scorer.text_embeddings(PROMPTS), expected, atol=1e-5)


def edited(uri: str, target: Path, name: str, **changes: Any) -> str:
    """A copy of a folder with keys of one of its configs replaced; "a.b" is a key inside "a"."""
    target.mkdir()
    for path in folder_of(uri).iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    path = target / name
    config = json.loads(path.read_text()) if path.is_file() else {}
    for key, value in changes.items():
        *outer, last = key.split(".")
        inner = config
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    path.write_text(json.dumps(config))
    return uri.replace(str(folder_of(uri)), str(target))


VISION, TEXT = "model_cfg.vision_cfg", "model_cfg.text_cfg"


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "problem"),
    [
        (
            "convnext",
            "open_clip_config.json",
            f"{VISION}.timm_model_name",
            "hf-hub:timm/resnet18.a1_in1k",
            "timm_model_n",
        ),
        ("convnext", "open_clip_config.json", f"{VISION}.timm_model_name", "local-dir:{outside}", "timm_model_name"),
        ("convnext", "open_clip_config.json", f"{VISION}.timm_model_name", "../outside", "timm_model_name"),
        ("convnext", "open_clip_config.json", f"{TEXT}.hf_model_name", "{outside}", "no config.json that describes it"),
        ("convnext", "open_clip_config.json", f"{TEXT}.hf_model_name", "bert-base-uncased", "no config.json that desc"),
        ("xlm-r", "config.json", "model_type", "clip", "type 'clip', which open_clip does not build"),
        ("xlm-r", "config.json", "auto_map", {"AutoConfig": "mine.Config"}, "names code of its own"),
        ("siglip", "open_clip_config.json", f"{TEXT}.tokenizer_kwargs", {"vocab_file": "/etc/passwd"}, "vocab_file"),
        ("siglip", "open_clip_config.json", f"{TEXT}.tokenizer_kwargs", {"subfolder": "../outside"}, "subfolder"),
        ("siglip", "open_clip_config.json", f"{TEXT}.tokenizer_kwargs", {"tokenizer_type": "bert"}, "tokenizer_type"),
        ("siglip", "open_clip_config.json", f"{TEXT}.tokenizer_kwargs", {"bpe_path": "{outside}/x.gz"}, "bpe_path"),
        ("siglip", "open_clip_config.json", f"{TEXT}.tokenizer_kwargs", {"reduction_mask": "syntax"}, "reduction_mask"),
        ("siglip", "open_clip_config.json", f"{TEXT}.tokenizer_kwargs", "{outside}", "tokenizer_kwargs"),
        ("siglip", "tokenizer_config.json", "tokenizer_file", "{outside}/tokenizer.json", "'tokenizer_file'"),
        (
            "siglip",
            "tokenizer_config.json",
            "fast_tokenizer_files",
            ["../outside/tokenizer.1.0.json"],
            "fast_tokenizer",
        ),
        ("clip", "tokenizer_config.json", "vocab_file", "../outside/vocab.json", "'vocab_file'"),
        ("clip", "tokenizer_config.json", "merges_file", "/etc/passwd", "'merges_file'"),
        ("clip", "tokenizer_config.json", "init_inputs", ["{outside}/vocab.json"], "'init_inputs'"),
        ("clip", "special_tokens_map.json", "vocab_file", "{outside}/vocab.json", "'vocab_file'"),
        ("clip", "config.json", "attn_implementation", "kernels-community/flash-attn", "'attn_implementation'"),
        ("clip", "config.json", "text_config._attn_implementation", "me/kernel:f", "'_attn_implementation'"),
        ("clip", "config.json", "quantization_config", {"quant_method": "fp8"}, "quantized"),
        ("clip", "preprocessor_config.json", "image_processor_type", "OneFormerImageProcessor", "a OneFormerImageProc"),
        ("clip", "preprocessor_config.json", "class_info_file", "{outside}/secret.json", "'class_info_file'"),
    ],
)
def test_a_name_that_leads_out_of_the_folder_is_refused_before_anything_loads(
    kind: str,
    name: str,
    key: str,
    value: Any,
    problem: str,
    folders: dict[str, str],
    tmp_path: Path,
    pictures: Pictures,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    text_config().save_pretrained(outside)
    tiny_tokenizer().save_pretrained(outside)
    named = json.loads(json.dumps(value).replace("{outside}", str(outside)))
    uri = edited(folders[kind], tmp_path / "model", name, **{key: named})
    with pytest.raises(ModelError, match=problem) as caught:
        open_scorer(uri, pictures, device="cpu", cache=None)
    assert str(tmp_path / "model" / name) in str(caught.value.where) or "hf_model_name" in key
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        ("clip", "config.json", "_name_or_path", "/somebody/elses/checkpoint"),
        ("clip", "tokenizer_config.json", "name_or_path", "../outside"),
        (
            "clip",
            "tokenizer_config.json",
            "special_tokens_map_file",
            "/root/.cache/huggingface/special_tokens_map.json",
        ),
        ("clip", "tokenizer_config.json", "tokenizer_file", None),
        ("clip", "config.json", "attn_implementation", "sdpa"),
        ("siglip", "open_clip_config.json", f"{TEXT}.hf_tokenizer_name", "/somebody/elses/tokenizer"),
    ],
)
def test_names_that_no_library_looks_up_are_no_reason_to_refuse(
    kind: str, name: str, key: str, value: Any, folders: dict[str, str], tmp_path: Path, pictures: Pictures
) -> None:
    uri = edited(folders[kind], tmp_path / "model", name, **{key: value})
    plain, named = (
        open_scorer(one, pictures, device="cpu", cache=None).logits(PROMPTS) for one in (folders[kind], uri)
    )
    np.testing.assert_array_equal(plain, named)


def config_alone(folder: Path, kind: str, **parts: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind, **parts}))
    return folder


TOWER = {"model_type": "timm_wrapper", "architecture": "resnet18"}


@pytest.mark.parametrize(
    ("kind", "parts", "problem"),
    [
        ("clip", {"vision_config": {"model_type": "timm_wrapper"}}, "'timm_wrapper' as 'model_type'"),
        ("clip", {"vision_config": {"model_type": "timm_backbone", "backbone": "me/mine"}}, "could be read from out"),
        ("clip", {"vision_config": {"architecture": "hf-hub:attacker/x"}}, "'hf-hub:attacker/x' as 'architecture'"),
        ("clip", {"vision_config": {"model_args": {"checkpoint_path": "/any/evil.pth"}}}, "'model_args'"),
        ("blip", {"vision_config": TOWER}, "could be read from outside"),
        ("clip", {"vision_config": TOWER}, "could be read from outside"),
        ("flava", {"image_config": TOWER}, "could be read from outside"),
        ("llama", {"pretrained": TOWER}, "could be read from outside"),
        ("sam2", {"vision_config": {"backbone_config": TOWER}}, "could be read from outside"),
        ("sam2_video", {"vision_config": {"model_type": "detr"}}, "a part is of type 'detr'"),
        ("grounding-dino", {"text_config": {"model_type": "rag"}}, "a part is of type 'rag'"),
    ],
)
def test_a_part_that_its_type_or_name_would_bring_from_elsewhere_is_refused(
    kind: str, parts: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=problem) as caught:
        find_folder(config_alone(tmp_path / "model", kind, **parts), (kind,))
    assert caught.value.where == str(tmp_path / "model" / "config.json")
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("grounding-dino", ("swin", "bert")),
    ],
)
def test_the_parts_that_published_models_have_are_no_reason_to_refuse(
    kind: str, parts: tuple[str, str], tmp_path: Path
) -> None:
    vision, text = ({"model_type": part, "backbone": None} for part in parts)
    folder = config_alone(tmp_path / "model", kind, vision_config=vision, text_config=text)
    with pytest.raises(ModelError, match="does not say how images are prepared"):  # what is looked at next
        find_folder(folder, (kind,))


def test_no_fingerprint_is_given_to_a_model_whose_tower_another_folder_describes(
    tmp_path: Path, pictures: Pictures
) -> None:
    vision = {"model_type": "timm_wrapper", "architecture": f"local-dir:{tmp_path / 'outside'}"}
    config_alone(tmp_path / "model", "clip", vision_config=vision)
    for said in ("gelu", "relu"):  # the same hashed files, with other answers
        config_alone(tmp_path / "outside", "vit", model_args={"act_layer": said})
        with pytest.raises(ModelError, match="could be read from outside of the model's folder"):
            open_scorer(f"hf:{tmp_path / 'model'}", pictures, device="cpu", cache=None)


def test_files_that_were_not_hashed_are_not_there_for_a_library(
    folders: dict[str, str], tmp_path: Path, pictures: Pictures
) -> None:
    uri = edited(folders["clip"], tmp_path / "model", "notes.json")
    (tmp_path / "model" / "adapter_model.safetensors").write_text("x")
    (tmp_path / "model" / "source.spm").write_text("x")
    (tmp_path / "model" / "additional_chat_templates").mkdir()
    one, other = (open_scorer(name, pictures, device="cpu", cache=None) for name in (folders["clip"], uri))
    np.testing.assert_array_equal(one.logits(PROMPTS), other.logits(PROMPTS))
    assert one.fingerprint == other.fingerprint


def test_the_config_of_a_text_tower_is_part_of_the_fingerprint(
    folders: dict[str, str], tmp_path: Path, pictures: Pictures
) -> None:
    uri = edited(folders["xlm-r"], tmp_path / "model", "config.json", layer_norm_eps=0.1)
    one, other = (open_scorer(name, pictures, device="cpu", cache=None) for name in (folders["xlm-r"], uri))
    assert one.fingerprint != other.fingerprint


@pytest.fixture
def hub_arch(tmp_path: Path) -> str:
    """An architecture of the library whose tokenizer is named on the hub."""
    import open_clip

    path = tmp_path / "fairgate-hub-tokenizer.json"
    path.write_text(json.dumps({**TINY, "text_cfg": {**TINY["text_cfg"], "hf_tokenizer_name": "team/tokenizer"}}))
    open_clip.add_model_config(path)
    return path.stem


def test_a_folder_in_the_repository_does_not_stand_in_for_a_hub_id(
    hub_arch: str, tiny_model: Any, tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file(tiny_model.state_dict(), tmp_path / "m.safetensors")
    tiny_tokenizer().save_pretrained(tmp_path / "team" / "tokenizer")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="'team/tokenizer' on the hub, which is not in the hub's cache") as caught:
        open_scorer(f"open_clip:{hub_arch}@m.safetensors", pictures, device="cpu", cache=None, base=tmp_path)
    assert "hf download team/tokenizer" in str(caught.value.remedy)


def test_a_tokenizer_from_the_hubs_cache_is_hashed(
    hub_arch: str, tiny_model: Any, tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file(tiny_model.state_dict(), tmp_path / "m.safetensors")
    snapshot = tmp_path / "cache" / "models--team--tokenizer" / "snapshots" / "abc"
    tiny_tokenizer().save_pretrained(snapshot)
    asked: list[bool] = []

    def cached(name: str, *, local_files_only: bool, **_: Any) -> str:
        asked.append(local_files_only)
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.snapshot_download", cached)
    uri = f"open_clip:{hub_arch}@m.safetensors"
    scorer = open_scorer(uri, pictures, device="cpu", cache=None, base=tmp_path)
    assert np.isfinite(scorer.logits(PROMPTS)).all()
    text = (snapshot / "tokenizer.json").read_text()
    (snapshot / "tokenizer.json").write_text(text.replace('"nurse": 7', '"nurse": 8').replace('"chef": 8', '"chef": 7'))
    assert open_scorer(uri, pictures, device="cpu", cache=None, base=tmp_path).fingerprint != scorer.fingerprint
    assert asked == [True, True]


@pytest.mark.parametrize("first", ["attn_implementation", "_attn_implementation_internal", "experts_implementation"])
def test_no_key_of_a_config_allows_another(first: str) -> None:
    """A list of kernels once took the place of the keys that a caller checks, so that a backbone's name passed."""
    named = ["backbone", "architecture", "checkpoint_path", "model_args"]
    for config in (
        {"backbone": "local-dir:/elsewhere", "note": {first: named}},
        {first: named, "checkpoint_path": "/x"},
    ):
        for ordered in (config, dict(reversed(list(config.items())))):
            with pytest.raises(ModelError, match="could be read from outside"):
                require_closed(ordered, "config.json")
