"""A checkpoint from a stranger is read or refused; it is never run."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from model_world import PREPROCESS, PROMPTS, TINY, Pictures, save_local_dir
from safetensors.torch import save_file

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer
from fairgate.models.checkpoints.files import require_weights


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.target),)


@pytest.fixture(params=["zip", "legacy", "plain"])
def trapped(request: pytest.FixtureRequest, tmp_path: Path, tiny_model: Any) -> tuple[Path, Path]:
    """A checkpoint that would create a folder when it is unpickled, and that folder."""
    target, path = tmp_path / "pwned", tmp_path / "trapped.pt"
    held = {"state_dict": tiny_model.state_dict(), "epoch": Payload(target)}
    if request.param == "plain":
        path.write_bytes(pickle.dumps(held))
    else:
        torch.save(held, path, _use_new_zipfile_serialization=request.param == "zip")
    return path, target


def score(uri: str, pictures: Pictures, base: Path) -> None:
    open_scorer(uri, pictures, device="cpu", cache=None, base=base).logits(PROMPTS)


def test_a_pickle_payload_is_refused_and_does_not_run(
    trapped: tuple[Path, Path], tiny_arch: str, pictures: Pictures
) -> None:
    path, target = trapped
    with pytest.raises(ModelError, match="have to run pickled code") as caught:
        score(f"open_clip:{tiny_arch}@{path}", pictures, path.parent)
    assert not target.exists()
    assert "convert it to safetensors" in str(caught.value.remedy)


def test_a_torchscript_archive_is_refused(tmp_path: Path, tiny_arch: str, pictures: Pictures) -> None:
    path = tmp_path / "archive.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates what old checkpoints are made of
        torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
    with pytest.raises(ModelError, match="TorchScript archive") as caught:
        score(f"open_clip:{tiny_arch}@{path}", pictures, tmp_path)
    assert "safetensors" in str(caught.value.remedy)


def damaged(kind: str, path: Path, state: dict[str, torch.Tensor]) -> Path:
    state = {name: value.clone() for name, value in state.items()}
    if kind in {"empty", "empty .pt"}:
        path = path.with_suffix(".pt") if kind == "empty .pt" else path
        path.touch()
    elif kind == "missing tensor":
        del state["ln_final.bias"]
        save_file(state, path)
    elif kind == "foreign tensor":
        save_file({**state, "head.weight": torch.zeros(2)}, path)
    elif kind == "renamed tensor":
        state["ln_finale.bias"] = state.pop("ln_final.bias")
        save_file(state, path)
    elif kind == "shape":
        state["text_projection"] = torch.zeros(16, 24)
        save_file(state, path)
    elif kind == "positions":
        state["visual.positional_embedding"] = torch.zeros(10, 32)
        save_file(state, path)
    elif kind == "nan":
        state["ln_final.bias"][3] = float("nan")
        save_file(state, path)
    elif kind in {"truncated", "header"}:
        save_file(state, path)
        path.write_bytes(path.read_bytes()[: -1000 if kind == "truncated" else 20])
    elif kind == "truncated .pt":
        path = path.with_suffix(".pt")
        torch.save(state, path)
        path.write_bytes(path.read_bytes()[:-2000])
    elif kind == "no state dict":
        path = path.with_suffix(".pt")
        torch.save({"epoch": 3, "optimizer": {}}, path)
    elif kind == "a tensor":
        path = path.with_suffix(".pt")
        torch.save(torch.zeros(3), path)
    elif kind == "text":
        path = path.with_suffix(".txt")
        path.write_text("weights")
    return path


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("empty", "the file is empty"),
        ("empty .pt", "the file is empty"),
        ("truncated", "truncated or damaged"),
        ("header", "truncated or damaged"),
        ("truncated .pt", "truncated or damaged"),
        ("shape", r"text_projection \(expected \(16, 16\), found \(16, 24\)\)"),
        ("positions", r"visual.positional_embedding \(expected \(5, 32\), found \(10, 32\)\)"),
        ("missing tensor", "1 tensors are missing: ln_final.bias"),
        ("foreign tensor", "1 are not of this architecture: head.weight"),
        ("renamed tensor", "did you mean 'ln_finale.bias'"),
        ("nan", "1 tensors hold NaN or infinite weights: ln_final.bias"),
        ("no state dict", r"holds no state dict \(found: epoch, optimizer\)"),
        ("a tensor", r"holds no state dict \(found: Tensor\)"),
        ("text", "'.txt' is not a kind of checkpoint"),
    ],
)
def test_a_damaged_or_foreign_checkpoint_is_a_clear_error(
    kind: str, problem: str, tmp_path: Path, tiny_arch: str, tiny_model: Any, pictures: Pictures
) -> None:
    path = damaged(kind, tmp_path / "candidate.safetensors", tiny_model.state_dict())
    with pytest.raises(ModelError, match=problem) as caught:
        score(f"open_clip:{tiny_arch}@{path}", pictures, tmp_path)
    assert str(path) in str(caught.value.where)
    assert caught.value.remedy


def test_a_file_that_changes_after_it_was_hashed_is_not_scored(
    tmp_path: Path, tiny_arch: str, tiny_model: Any, pictures: Pictures
) -> None:
    path = tmp_path / "moving.safetensors"
    save_file(tiny_model.state_dict(), path)
    scorer = open_scorer(f"open_clip:{tiny_arch}@{path}", pictures, device="cpu", cache=None)
    save_file({**tiny_model.state_dict(), "more": torch.zeros(3)}, path)
    with pytest.raises(ModelError, match="changed between hashing and loading"):
        scorer.logits(PROMPTS)


def test_a_link_that_leaves_the_model_folder_is_refused(tmp_path: Path, local_dir: Path, pictures: Pictures) -> None:
    weights = local_dir / "open_clip_model.safetensors"
    weights.rename(tmp_path / "elsewhere.safetensors")
    weights.symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(ModelError, match="leads outside of it") as caught:
        score(f"open_clip:local-dir:{local_dir}", pictures, tmp_path)
    assert "cp -rL" in str(caught.value.remedy)


def test_a_link_within_the_model_folder_is_followed(tmp_path: Path, local_dir: Path, pictures: Pictures) -> None:
    (local_dir / "open_clip_model.safetensors").rename(local_dir / "epoch_3.safetensors")
    (local_dir / "open_clip_model.safetensors").symlink_to("epoch_3.safetensors")
    score(f"open_clip:local-dir:{local_dir}", pictures, tmp_path)


def test_code_of_a_text_tower_is_not_run_whatever_is_answered(
    tmp_path: Path, local_dir: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    tower, target = tmp_path / "tower", tmp_path / "pwned"
    tower.mkdir()
    (tower / "mine.py").write_text(f"import os; os.mkdir({str(target)!r})\nclass Config: pass\n")
    (tower / "config.json").write_text(json.dumps({"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}))
    config = {**TINY, "text_cfg": {"hf_model_name": str(tower), "hf_tokenizer_name": str(tower)}}
    (local_dir / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
    monkeypatch.setattr("builtins.input", lambda _: "y")
    with pytest.raises(ModelError, match=r"holds no config\.json that describes it"):
        score(f"open_clip:local-dir:{local_dir}", pictures, tmp_path)
    for name in ("mine.py", "config.json"):
        (local_dir / name).write_bytes((tower / name).read_bytes())
    with pytest.raises(ModelError, match="names code of its own"):
        score(f"open_clip:local-dir:{local_dir}", pictures, tmp_path)
    assert not target.exists()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("open_clip_config.json", None, "holds no open_clip_config.json"),
        ("open_clip_config.json", "{", "not valid JSON"),
        ("open_clip_config.json", "[]", "does not hold a JSON object"),
        ("open_clip_config.json", '{"vision_cfg": {}}', "lacks 'model_cfg'"),
        (
            "open_clip_config.json",
            json.dumps({"model_cfg": {**TINY, "text_cfg": {"tokenizer_kwargs": {"trust_remote_code": True}}}}),
            "names code of its own .'trust_remote_code'.",
        ),
        (
            "open_clip_config.json",
            json.dumps({"model_cfg": {**TINY, "colour": "red"}, "preprocess_cfg": PREPROCESS}),
            "cannot be built by open_clip",
        ),
        ("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": "mine.Tokenizer"}}', "names code of its own"),
        ("open_clip_model.safetensors", None, "holds no weights"),
    ],
)
def test_a_folder_that_cannot_be_trusted_or_read_is_a_clear_error(
    name: str, content: str | None, problem: str, local_dir: Path, pictures: Pictures
) -> None:
    (local_dir / name).unlink(missing_ok=True)
    if content is not None:
        (local_dir / name).write_text(content)
    with pytest.raises(ModelError, match=problem) as caught:
        score(f"open_clip:local-dir:{local_dir}", pictures, local_dir)
    assert caught.value.remedy


def test_a_folder_with_several_weight_files_must_say_which(tmp_path: Path, local_dir: Path, pictures: Pictures) -> None:
    weights = local_dir / "open_clip_model.safetensors"
    (local_dir / "epoch_1.safetensors").write_bytes(weights.read_bytes())
    weights.rename(local_dir / "epoch_2.safetensors")
    with pytest.raises(ModelError, match=r"several weight files \(epoch_1.safetensors, epoch_2.safetensors\)"):
        score(f"open_clip:local-dir:{local_dir}", pictures, tmp_path)


def test_a_missing_folder_names_its_nearest_neighbour(tmp_path: Path, tiny_model: Any, pictures: Pictures) -> None:
    save_local_dir(tmp_path / "tuned", tiny_model)
    with pytest.raises(ModelError, match="did you mean 'tuned'"):
        score("open_clip:local-dir:tunde", pictures, tmp_path)
    with pytest.raises(ModelError, match="the path is a folder, and a file is expected"):
        score("open_clip:ViT-B-32@./tuned", pictures, tmp_path)


@pytest.fixture
def _no_waiting() -> Iterator[None]:
    """A read that waits for a writer is a failure after a minute, not for ever."""
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.mark.usefixtures("_no_waiting")
@pytest.mark.parametrize("name", ["tokenizer.json", "open_clip_model.safetensors", "notes.txt"])
def test_a_pipe_in_a_model_folder_is_an_error_at_once(name: str, local_dir: Path, pictures: Pictures) -> None:
    (local_dir / name).unlink(missing_ok=True)
    os.mkfifo(local_dir / name)
    with pytest.raises(ModelError, match="a pipe, a socket or a device") as caught:
        score(f"open_clip:local-dir:{local_dir}", pictures, local_dir)
    assert str(local_dir / name) in str(caught.value.where)


@pytest.mark.usefixtures("_no_waiting")
def test_a_pipe_or_a_device_as_weights_is_an_error_at_once(tmp_path: Path, tiny_arch: str, pictures: Pictures) -> None:
    os.mkfifo(tmp_path / "m.safetensors")
    for address in ("m.safetensors", "/dev/zero"):
        with pytest.raises(ModelError, match="a pipe, a socket or a device"):
            score(f"open_clip:{tiny_arch}@{address}", pictures, tmp_path)


def test_an_archive_that_spans_several_disks_is_a_damaged_checkpoint(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    whole = buffer.getvalue()
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, 0, 2)  # of two disks
    (tmp_path / "model.pt").write_bytes(whole[:-22] + locator + whole[-22:])
    with pytest.raises(ModelError, match="truncated or damaged"):
        require_weights(tmp_path / "model.pt")


def test_an_archive_that_python_does_not_take_for_one_is_a_damaged_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As newer patch releases do of one that spans several disks; torch opens what begins like an archive."""
    monkeypatch.setattr(zipfile, "is_zipfile", lambda _: False)
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(ModelError, match="truncated or damaged"):
        require_weights(tmp_path / "model.pt")


def test_an_archive_with_two_lists_of_files_is_a_damaged_checkpoint(tmp_path: Path) -> None:
    """Python reads the list right before the end, torch the one that the end record names: one says less."""
    torch.save({"w": torch.zeros(4)}, tmp_path / "model.pt")
    require_weights(tmp_path / "model.pt")
    whole = (tmp_path / "model.pt").read_bytes()
    size, offset = struct.unpack("<QQ", whole[-58:-42])
    listed, record, locator, end = whole[offset : offset + size], whole[-98:-42], whole[-42:-22], whole[-22:]
    later = struct.pack("<LQL", *struct.unpack("<L", locator[4:8]), offset + 2 * size, 1)
    (tmp_path / "two.pt").write_bytes(whole[:offset] + 2 * listed + record + locator[:4] + later + end)
    narrow = end[:12] + struct.pack("<II", size, offset) + end[20:]
    (tmp_path / "narrow.pt").write_bytes(whole[:offset] + 2 * listed + narrow)
    (tmp_path / "comment.pt").write_bytes(whole[:-2] + struct.pack("<H", size) + listed)
    elsewhere = locator[:8] + struct.pack("<Q", 0) + locator[16:]
    (tmp_path / "elsewhere.pt").write_bytes(whole[:-42] + elsewhere + end)
    for name in ("two", "narrow", "comment", "elsewhere"):
        with pytest.raises(ModelError, match="truncated or damaged"):
            require_weights(tmp_path / f"{name}.pt")
