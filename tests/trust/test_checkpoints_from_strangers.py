"""A checkpoint of a pull request runs no code, unpacks to nothing huge, and reads no file outside of its folder."""

from __future__ import annotations

import json
import pickle
import resource
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from toy_repository import Toy
from trust_world import Payload, check, local_dir, shut, tiny_model, zip_bomb

Plant = Callable[[Path], str]


@pytest.fixture(scope="module")
def tiny() -> Any:
    return tiny_model()


def hf_folder(root: Path, **config: Any) -> Path:
    """A folder that passes for one of transformers, up to its weights."""
    folder = root / "hf"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "clip", **config}))
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "CLIPImageProcessor"}))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def trapped(root: Path) -> dict[str, Any]:
    return {"state_dict": {"x": torch.zeros(2)}, "epoch": Payload(root / "pwned")}


def pickled_checkpoint(root: Path) -> str:
    torch.save(trapped(root), root / "m.pt")
    return "open_clip:ViT-B-32@m.pt"


def bare_pickle(root: Path) -> str:
    (root / "m.bin").write_bytes(pickle.dumps(trapped(root)))
    return "open_clip:ViT-B-32@m.bin"


def disguised_as_safetensors(root: Path) -> str:
    torch.save(trapped(root), root / "m.safetensors")
    return "open_clip:ViT-B-32@m.safetensors"


def in_an_hf_folder(root: Path) -> str:
    torch.save(trapped(root), hf_folder(root) / "pytorch_model.bin")
    return "hf:hf"


def in_an_hf_folder_as_safetensors(root: Path) -> str:
    torch.save(trapped(root), hf_folder(root) / "model.safetensors")
    return "hf:hf"


def in_an_open_clip_folder(root: Path) -> str:
    folder = local_dir(root / "oc", tiny_model())
    (folder / "open_clip_model.safetensors").unlink()
    torch.save(trapped(root), folder / "open_clip_pytorch_model.bin")
    return "open_clip:local-dir:oc"


def archive_bomb(root: Path) -> str:
    zip_bomb(root / "m.pt")
    return "open_clip:ViT-B-32@m.pt"


def bomb_in_an_open_clip_folder(root: Path) -> str:
    folder = local_dir(root / "oc", tiny_model())
    (folder / "open_clip_model.safetensors").unlink()
    zip_bomb(folder / "open_clip_pytorch_model.bin")
    return "open_clip:local-dir:oc"


def one_number_a_trillion_times(root: Path) -> str:
    torch.save({"x": torch.zeros(1).expand(10**12)}, root / "m.pt")
    return "open_clip:ViT-B-32@m.pt"


def a_sparse_tensor(root: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some releases of torch warn of the option whatever it says
        tensor = torch.sparse_coo_tensor([[0]], [1.0], (10**12,), check_invariants=False)
    torch.save({"x": tensor}, root / "m.pt")
    return "open_clip:ViT-B-32@m.pt"


def a_tensor_without_data(root: Path) -> str:
    torch.save({"x": torch.zeros(10**12, device="meta")}, root / "m.pt")
    return "open_clip:ViT-B-32@m.pt"


def a_header_that_promises_terabytes(root: Path) -> str:
    header = json.dumps({"x": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}).encode()
    (root / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return "open_clip:ViT-B-32@m.safetensors"


def a_header_longer_than_the_file(root: Path) -> str:
    (root / "m.safetensors").write_bytes((2**63).to_bytes(8, "little") + b"{}")
    return "open_clip:ViT-B-32@m.safetensors"


def a_giant_picture_size(root: Path) -> str:
    folder = local_dir(root / "oc", tiny_model())
    config = json.loads((folder / "open_clip_config.json").read_text())
    config["preprocess_cfg"]["size"] = 10**6
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    return "open_clip:local-dir:oc"


def a_million_layers(root: Path) -> str:
    return f"hf:{hf_folder(root, text_config={'num_hidden_layers': 10**6}).name}"


def a_config_nested_beyond_reason(root: Path) -> str:
    (hf_folder(root) / "config.json").write_text("[" * 100_000)
    return "hf:hf"


def a_number_of_ten_thousand_digits(root: Path) -> str:
    (hf_folder(root) / "config.json").write_text('{"model_type": "clip", "x": ' + "9" * 10_000 + "}")
    return "hf:hf"


def wider_than_its_weights(root: Path) -> str:
    folder = local_dir(root / "oc", tiny_model())
    config = {**TINY_WIDE, "vision_cfg": {**TINY_WIDE["vision_cfg"], "width": 8192, "head_width": 64, "layers": 60}}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
    return "open_clip:local-dir:oc"


TINY_WIDE: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "patch_size": 16},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}


def code_in_the_config(root: Path) -> str:
    folder = hf_folder(root, auto_map={"AutoModel": "mine.Model"})
    (folder / "mine.py").write_text(f"import os; os.mkdir({str(root / 'pwned')!r})\nclass Model: pass\n")
    return "hf:hf"


def trust_asked_for_deep_inside(root: Path) -> str:
    return f"hf:{hf_folder(root, vision_config={'kwargs': [{'trust_remote_code': True}]}).name}"


def code_in_the_tokenizer(root: Path) -> str:
    folder = hf_folder(root)
    (folder / "mine.py").write_text(f"import os; os.mkdir({str(root / 'pwned')!r})\nclass T: pass\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["mine.T", None]}}))
    return "hf:hf"


def code_in_the_processor(root: Path) -> str:
    (hf_folder(root) / "preprocessor_config.json").write_text(json.dumps({"auto_map": {"AutoImageProcessor": "m.P"}}))
    return "hf:hf"


def shards_outside_the_folder(root: Path) -> str:
    index = {"weight_map": {"x": "../../secret.safetensors"}}
    (hf_folder(root) / "model.safetensors.index.json").write_text(json.dumps(index))
    return "hf:hf"


def a_link_out_of_an_hf_folder(root: Path) -> str:
    secret = root.parent / f"{root.name}-secret"
    secret.write_text("secret")
    (hf_folder(root) / "merges.txt").symlink_to(secret)
    return "hf:hf"


def a_link_out_of_an_open_clip_folder(root: Path) -> str:
    secret = root.parent / f"{root.name}-secret.safetensors"
    save_file({"x": torch.zeros(2)}, secret)
    folder = local_dir(root / "oc", tiny_model())
    (folder / "open_clip_model.safetensors").unlink()
    (folder / "open_clip_model.safetensors").symlink_to(secret)
    return "open_clip:local-dir:oc"


def a_link_to_itself(root: Path) -> str:
    (root / "m.safetensors").symlink_to("m.safetensors")
    return "open_clip:ViT-B-32@m.safetensors"


def a_name_that_no_file_system_has(root: Path) -> str:
    return f"open_clip:ViT-B-32@./{'x' * 5000}.safetensors"


def nobodys_home(root: Path) -> str:
    return "open_clip:ViT-B-32@~nobody-of-this-name/m.safetensors"


def a_device(root: Path) -> str:
    return "open_clip:ViT-B-32@/dev/zero"


def of_no_list(plant: Plant) -> Plant:
    """The same folder of a type for which fairgate has no code, and which the library opens."""

    def planted(root: Path) -> str:
        uri, path = plant(root), root / "hf" / "config.json"
        kind = '"model_type": "altclip", "architectures": ["AltCLIPModel"], "text_config": {}, "vision_config": {}'
        path.write_text(path.read_text().replace('"model_type": "clip"', kind))
        return uri

    planted.__name__ = f"{plant.__name__}_of_no_list"
    return planted


@pytest.mark.parametrize(
    ("plant", "problem"),
    [
        (pickled_checkpoint, "have to run pickled code"),
        (bare_pickle, "have to run pickled code"),
        (disguised_as_safetensors, "safetensors file is truncated or damaged"),
        (in_an_hf_folder, "only pickled weights (pytorch_model.bin)"),
        (in_an_hf_folder_as_safetensors, "safetensors file is truncated or damaged"),
        (in_an_open_clip_folder, "have to run pickled code"),
        (archive_bomb, "unpacks to 268,43"),
        (bomb_in_an_open_clip_folder, "unpacks to 268,43"),
        (one_number_a_trillion_times, "not plain arrays in memory: x"),
        (a_sparse_tensor, "not plain arrays in memory: x"),
        (a_tensor_without_data, "not plain arrays in memory: x"),
        (a_header_that_promises_terabytes, "truncated or damaged"),
        (a_header_longer_than_the_file, "truncated or damaged"),
        (a_giant_picture_size, "sets 'size' to 1000000"),
        (a_million_layers, "sets 'num_hidden_layers' to 1000000"),
        (a_config_nested_beyond_reason, "not valid JSON"),
        (a_number_of_ten_thousand_digits, "not valid JSON"),
        (wider_than_its_weights, "does not fit the architecture"),
        (code_in_the_config, "code of its own ('auto_map')"),
        (trust_asked_for_deep_inside, "code of its own ('trust_remote_code')"),
        (code_in_the_tokenizer, "code of its own ('auto_map')"),
        (code_in_the_processor, "code of its own ('auto_map')"),
        (shards_outside_the_folder, "does not name safetensors shards of this folder"),
        (a_link_out_of_an_hf_folder, "leads outside of it"),
        (a_link_out_of_an_open_clip_folder, "leads outside of it"),
        (a_link_to_itself, "cannot be looked up|does not exist"),
        (a_name_that_no_file_system_has, "cannot be looked up"),
        (nobodys_home, "cannot be looked up"),
        (a_device, "a pipe, a socket or a device"),
        (of_no_list(in_an_hf_folder), "only pickled weights (pytorch_model.bin)"),
        (of_no_list(in_an_hf_folder_as_safetensors), "safetensors file is truncated or damaged"),
        (of_no_list(a_million_layers), "sets 'num_hidden_layers' to 1000000"),
        (of_no_list(a_number_of_ten_thousand_digits), "not valid JSON"),
        (of_no_list(code_in_the_config), "code of its own ('auto_map')"),
        (of_no_list(trust_asked_for_deep_inside), "code of its own ('trust_remote_code')"),
        (of_no_list(code_in_the_tokenizer), "code of its own ('auto_map')"),
        (of_no_list(code_in_the_processor), "code of its own ('auto_map')"),
        (of_no_list(shards_outside_the_folder), "does not name safetensors shards of this folder"),
        (of_no_list(a_link_out_of_an_hf_folder), "leads outside of it"),
    ],
)
def test_a_hostile_checkpoint_shuts_the_gate_and_does_nothing(toy: Toy, plant: Plant, problem: str) -> None:
    uri = plant(toy.root)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = check(toy, "--model", uri)
    reason = shut(toy, result)
    assert any(part in reason for part in problem.split("|")), reason
    assert not (toy.root / "pwned").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # a gigabyte, in kilobytes


def test_python_files_in_a_model_folder_are_never_imported(toy: Toy, tiny: Any) -> None:
    folder = local_dir(toy.root / "oc", tiny)
    trap = f"import os; os.mkdir({str(toy.root / 'pwned')!r})\n"
    for name in ("__init__.py", "open_clip.py", "modeling_clip.py", "sitecustomize.py", "tokenizer.py"):
        (folder / name).write_text(trap)
    (folder / "chat_template.jinja").write_text("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    result = check(toy, "--model", "open_clip:local-dir:oc", "--baseline", "none")
    assert "could not be computed" not in result.output
    assert (toy.root / "out" / "scores.parquet").is_file()
    assert not (toy.root / "pwned").exists()
