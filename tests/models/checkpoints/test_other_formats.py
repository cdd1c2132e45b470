"""Files that no family reads are refused with the conversion to run, and the table that always works."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer

SOURCE: Any = SimpleNamespace(fingerprint="0", folder=Path("pictures"))
CONFIG = {"model_type": "beit", "architectures": ["BeitForImageClassification"], "id2label": {"0": "a", "1": "b"}}


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("model-q4.gguf", "from_pretrained(FOLDER, gguf_file=NAME)"),
        ("__0_0.distcp", "format_utils dcp_to_torch FOLDER FILE"),
        ("zero_to_fp32.py", "python zero_to_fp32.py . FOLDER --safe_serialization"),
        ("Model.mlpackage", "judge the checkpoint that it was converted from"),
        ("openvino_model.xml", "judge the checkpoint that it was converted from"),
        ("pytorch_model.bin", "load them by from_pretrained(FOLDER)"),
        ("model.onnx", "name it onnx:FILE?labels=FILE"),
    ],
)
@pytest.mark.parametrize("configured", [True, False], ids=["with config.json", "without"])
def test_a_folder_in_another_format_is_refused_with_its_conversion_and_the_table_that_works(
    name: str, advice: str, configured: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("x")
    if configured:
        (tmp_path / "config.json").write_text(json.dumps(CONFIG))
        (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "BeitImageProcessor"}))
    with pytest.raises(ModelError, match="holds no") as refused:
        open_scorer(f"classifier:{tmp_path}", SOURCE, device="cpu", cache=None)
    assert advice in str(refused.value.remedy)
    assert str(refused.value.remedy).endswith("a table of its answers always works: labels:FILE")


@pytest.mark.parametrize("address", ["sdxl.safetensors", "."], ids=["the file", "its folder"])
def test_a_diffusion_model_in_one_file_is_refused_with_its_conversion(address: str, tmp_path: Path) -> None:
    (tmp_path / "sdxl.safetensors").write_text("x")
    with pytest.raises(ModelError) as refused:
        open_scorer(f"diffusion:{address}", SOURCE, device="cpu", cache=None, base=tmp_path)
    assert "PIPELINE.from_single_file(FILE, config=FOLDER)" in str(refused.value.remedy)
