"""What training put around a state dict is taken off, and averaged weights are read only where they are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from fairgate.ground.errors import ModelError
from fairgate.models.checkpoints import read_state_dict, without_prefixes

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


def test_averaged_weights_are_read_only_where_they_are_named(tmp_path: Path) -> None:
    averaged = {name: value + 1 for name, value in STATE.items()}
    torch.save({"state_dict": STATE, "state_dict_ema": averaged}, tmp_path / "a.pth")
    assert torch.equal(read_state_dict(tmp_path / "a.pth")["fc.bias"], torch.zeros(2))
    assert torch.equal(read_state_dict(tmp_path / "a.pth", key="state_dict_ema")["fc.bias"], torch.ones(2))
    with pytest.raises(ModelError, match="no state dict under the key 'model_ema'"):
        read_state_dict(tmp_path / "a.pth", key="model_ema")


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
