"""onnxruntime reads a stranger's file in a process of its own, which gives the same numbers and may end alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_world import Pictures

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx import TensorProto
from onnx_world import SHOWN, onnx_model, save_onnx

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer
from fairgate.models.isolated import child
from fairgate.models.onnx import session
from fairgate.models.onnx.host import session_here
from fairgate.models.onnx.session import OnnxSession


def opened(pictures: Pictures, base: Path) -> Any:
    return open_scorer(f"onnx:m.onnx?labels=labels.txt&{SHOWN}", pictures, device="cpu", base=base)


def test_the_process_gives_the_numbers_of_onnxruntime_and_its_end_is_an_error(
    tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_onnx(tmp_path / "m.onnx", onnx_model(kind=TensorProto.FLOAT16))
    found = opened(pictures, tmp_path)
    first = found.outputs()
    running = found._engine().outputs._session
    assert isinstance(running, OnnxSession)
    running._process._process.kill()
    with pytest.raises(ModelError, match="ended early") as caught:
        found._engine().outputs([np.zeros((3, 8, 8), np.float32)])
    assert "m.onnx" in str(caught.value.where)
    monkeypatch.setattr(session, "OnnxSession", session_here)
    np.testing.assert_array_equal(opened(pictures, tmp_path).outputs(), first)


def test_what_onnxruntime_refuses_there_is_told_with_its_remedy(tmp_path: Path, pictures: Pictures) -> None:
    save_onnx(tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match="onnxruntime does not load the model") as caught:
        opened(pictures, tmp_path).outputs()
    assert "InferenceSession" in str(caught.value.remedy)


def test_where_the_machine_cannot_isolate_it_ci_gives_no_numbers(
    tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_onnx(tmp_path / "m.onnx")
    monkeypatch.setenv("CI", "true")
    told = child.IsolatedModel._answer

    def unable(self: Any, write: Any) -> Any:
        return {**told(self, write), "missing": ["the network"]}

    monkeypatch.setattr(child.IsolatedModel, "_answer", unable)
    with pytest.raises(ModelError, match="does not keep the model from the network"):
        opened(pictures, tmp_path).outputs()
