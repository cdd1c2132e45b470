"""What training put around a state dict is taken off, and of several weights the URI chooses."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import read_state_dict, training_args, without_prefixes

STATE = {"fc.weight": torch.arange(6.0).reshape(2, 3), "fc.bias": torch.zeros(2)}


def prefixed(prefix: str) -> dict[str, Any]:
    return {f"{prefix}{name}": value for name, value in STATE.items()}


@pytest.mark.parametrize(
    "prefix",
    ["", "module.", "_orig_mod.", "model.", "module._orig_mod.", "model._orig_mod.", "_orig_mod.module.model."],
)
@pytest.mark.parametrize("holder", [None, "state_dict", "model"])
def test_prefixes_and_keys_of_training_are_taken_off(tmp_path: Path, prefix: str, holder: str | None) -> None:
    held = prefixed(prefix) if holder is None else {holder: prefixed(prefix), "epoch": 3}
    torch.save(held, tmp_path / "a.pt")
    found = read_state_dict(tmp_path / "a.pt", own=list(STATE))
    assert found.keys() == STATE.keys()
    assert torch.equal(found["fc.weight"], STATE["fc.weight"])


def test_compiled_parts_lose_their_prefix_inside_of_names() -> None:
    assert without_prefixes({"trunk._orig_mod.a": 1, "b": 2}, "x") == {"trunk.a": 1, "b": 2}


def test_a_model_whose_own_names_begin_with_model_keeps_them(tmp_path: Path) -> None:
    save_file(prefixed("model."), tmp_path / "a.safetensors")
    assert set(read_state_dict(tmp_path / "a.safetensors", own=["model.fc.weight", "model.fc.bias"])) == {
        "model.fc.weight",
        "model.fc.bias",
    }
    assert set(read_state_dict(tmp_path / "a.safetensors")) == {"model.fc.weight", "model.fc.bias"}


@pytest.mark.parametrize("prefix", ["", "module."])
def test_averaged_weights_beside_the_usual_ones_have_to_be_chosen_by_name(tmp_path: Path, prefix: str) -> None:
    averaged = {f"{prefix}{name}": value + 1 for name, value in STATE.items()}
    steps = {"n_averaged": torch.tensor(3)} if prefix else {}
    optimizer = {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": []}
    held = {"state_dict": STATE, "state_dict_ema": averaged | steps, "optimizer": optimizer}
    torch.save(held, tmp_path / "a.pth")
    for key, expected in (("state_dict", torch.zeros(2)), ("state_dict_ema", torch.ones(2))):
        assert torch.equal(read_state_dict(tmp_path / "a.pth", key=key)["fc.bias"], expected)
    with pytest.raises(ModelError, match="several weights of one model: state_dict, state_dict_ema"):
        read_state_dict(tmp_path / "a.pth")
    with pytest.raises(ModelError, match="no state dict under the key 'model_ema'"):
        read_state_dict(tmp_path / "a.pth", key="model_ema")


def test_arguments_of_a_training_are_read_as_plain_data_and_nothing_of_them_runs(tmp_path: Path) -> None:
    args = Namespace(model="net", size=(3, 8), device=torch.device("cpu"), odd=torch.ones(2))
    torch.save({"model": STATE, "args": args}, tmp_path / "a.pth")
    assert training_args(tmp_path / "a.pth") == {"model": "net", "size": [3, 8], "device": None, "odd": None}
    assert read_state_dict(tmp_path / "a.pth").keys() == STATE.keys()
    args.again = args
    torch.save({"model": STATE, "args": args}, tmp_path / "a.pth")
    assert training_args(tmp_path / "a.pth")["again"] is None
    args.again = [args.size]
    args.again.append(args.again)
    torch.save({"model": STATE, "args": args}, tmp_path / "a.pth")
    assert training_args(tmp_path / "a.pth") == {}


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.touch, (self.target,)


def test_arguments_with_an_object_that_runs_code_are_refused_and_it_does_not_run(tmp_path: Path) -> None:
    args = Namespace(model="net", output=Evil(tmp_path / "ran"))
    torch.save({"model": STATE, "args": args}, tmp_path / "a.pth")
    for read in (training_args, read_state_dict):
        with pytest.raises(ModelError, match="would have to run pickled code") as refused:
            read(tmp_path / "a.pth")
        assert "convert it to safetensors" in str(refused.value.remedy)
        assert re.search(r"\(it holds a [\w.]+\)", refused.value.problem)
    assert not (tmp_path / "ran").exists()


def test_two_tensors_that_become_one_are_refused() -> None:
    with pytest.raises(ModelError, match="with and without the prefix"):
        without_prefixes({"a._orig_mod.b": 1, "a.b": 2}, "x")


def test_a_machine_without_memory_is_not_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object, **__: object) -> None:
        raise MemoryError

    torch.save(STATE, tmp_path / "a.pt")
    monkeypatch.setattr(torch, "load", too_large)
    with pytest.raises(MemoryError):
        read_state_dict(tmp_path / "a.pt")
