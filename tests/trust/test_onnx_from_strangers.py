"""ONNX files of strangers read no file that the URI does not name, run no operator of their own, and set no option."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnx
from model_world import Pictures, encoded, picture, sessions_here  # noqa: F401 - a fixture
from onnx import TensorProto, helper, numpy_helper
from onnx_world import SHOWN, onnx_model, point_outside, save_onnx, towers_model, with_data

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import sha256_bytes
from fairgate.models import open_scorer
from fairgate.models.onnx.session import OnnxSession

pytestmark = pytest.mark.usefixtures("sessions_here")
SECRET = np.array([[7, 8, 9]], dtype=np.float32)
OWN_PROCESS = OnnxSession
MEMORY = "*/_ORT_MEM_ADDR_/*"
"""The name by which onnxruntime means an address in its own memory."""


@pytest.fixture
def pictures() -> Pictures:
    return Pictures([encoded(picture(1))])


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, in which the gate is started, with files that a model may point to."""
    root = tmp_path / "repository"
    (root / "*" / "_ORT_MEM_ADDR_").mkdir(parents=True)
    for path in (root / "secret.bin", tmp_path / "secret.bin", root / MEMORY):
        path.write_bytes(SECRET.tobytes())
    monkeypatch.chdir(root)
    return root


def outputs(root: Path, pictures: Pictures, more: str = "", file: str = "m.onnx") -> Any:
    return open_scorer(f"onnx:{file}?labels=labels.txt&{SHOWN}{more}", pictures, device="cpu", base=root).outputs()


def refusal(root: Path, pictures: Pictures, more: str = "", file: str = "m.onnx") -> ModelError:
    with pytest.raises(ModelError) as caught:
        outputs(root, pictures, more, file)
    assert caught.value.where
    assert caught.value.remedy
    return caught.value


def secret(location: str) -> Any:
    """A tensor of another file."""
    tensor = numpy_helper.from_array(SECRET, "secret")
    point_outside(tensor, location)
    return tensor


def in_weights(location: str) -> onnx.ModelProto:
    """A model that adds an initializer of another file to its outputs."""
    return _adding("secret", [], [secret(location)])


def in_a_constant(location: str) -> onnx.ModelProto:
    """The same of an operator's attribute."""
    return _adding("secret", [helper.make_node("Constant", [], ["secret"], value=secret(location))], [])


def in_a_branch(location: str) -> onnx.ModelProto:
    """The same of a graph inside of the graph, which onnxruntime looks for where the process was started."""

    def branch(name: str) -> Any:
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)]
        return helper.make_graph(
            [helper.make_node("Identity", ["secret"], [name])], name, [], given, [secret(location)]
        )

    always = numpy_helper.from_array(np.array(True), "always")
    node = helper.make_node("If", ["always"], ["chosen"], then_branch=branch("a"), else_branch=branch("b"))
    return _adding("chosen", [node], [always])


def _adding(name: str, nodes: list[Any], tensors: list[Any]) -> onnx.ModelProto:
    model = onnx_model()
    last = model.graph.node[-1]
    assert last.op_type == "Identity"
    last.CopyFrom(helper.make_node("Add", [last.input[0], name], list(last.output)))
    for node in reversed(nodes):
        model.graph.node.insert(0, node)
    model.graph.initializer.extend(tensors)
    return model


@pytest.mark.parametrize("location", ["secret.bin", "../secret.bin", "{}/secret.bin", MEMORY, "/proc/self/environ"])
@pytest.mark.parametrize("hidden", [in_weights, in_a_constant, in_a_branch])
def test_a_file_that_the_uri_does_not_name_is_never_read(
    hidden: Callable[[str], onnx.ModelProto], location: str, stranger: Path, pictures: Pictures
) -> None:
    save_onnx(stranger / "m.onnx", hidden(location.format(stranger.parent)))
    assert "onnxruntime does not load the model" in refusal(stranger, pictures).problem
    with_data(stranger / "named.onnx", "weights.bin", stranger / "weights.bin")
    assert "onnxruntime does not load" in refusal(stranger, pictures, "&data=weights.bin").problem


def test_the_weights_that_the_model_names_are_told_as_an_option(stranger: Path, pictures: Pictures) -> None:
    with_data(stranger / "m.onnx", "m.onnx.data", stranger / "m.onnx.data")
    assert "&data=FILE" in str(refusal(stranger, pictures).remedy)
    assert outputs(stranger, pictures, "&data=m.onnx.data").shape == (1, 3)


def test_weights_outside_of_the_models_folder_are_refused_also_behind_a_link(
    stranger: Path, pictures: Pictures
) -> None:
    with_data(stranger / "m.onnx", "../w.bin", stranger.parent / "w.bin")
    assert "outside of the model's folder" in refusal(stranger, pictures, "&data=../w.bin").problem
    with_data(stranger / "m.onnx", "w.bin", None)
    (stranger / "w.bin").symlink_to(stranger.parent / "w.bin")
    assert "outside of the model's folder" in refusal(stranger, pictures, "&data=w.bin").problem


@pytest.mark.parametrize("tower", ["image", "text"])
def test_neither_of_two_towers_reads_a_file_that_the_uri_does_not_name(
    tower: str, stranger: Path, pictures: Pictures
) -> None:
    from hf_world import tiny_tokenizer

    tiny_tokenizer().save_pretrained(stranger / "words")
    for name in ("image", "text"):
        model = towers_model(name)
        tensor = next(each for each in model.graph.initializer if each.name in ("colours", "words"))
        if name == tower:
            (stranger / "named.bin").write_bytes(tensor.raw_data)
            point_outside(tensor, "named.bin")
        save_onnx(stranger / f"{name}.onnx", model)
    uri = f"onnx:image.onnx?text=text.onnx&processor=words&length=12&logit_scale=9&{SHOWN}"
    with pytest.raises(ModelError, match="onnxruntime does not load the model"):
        open_scorer(uri, pictures, device="cpu", base=stranger).similarity([["a photo"]])
    named = f"{uri}&{'data' if tower == 'image' else 'text_data'}=named.bin"
    assert open_scorer(named, pictures, device="cpu", base=stranger).similarity([["a photo"]]).shape == (1, 1)


@pytest.mark.parametrize("domain", ["evil", "com.microsoft", "ai.onnx.contrib"])
def test_operators_that_onnxruntime_does_not_bring_are_refused(domain: str, stranger: Path, pictures: Pictures) -> None:
    model = onnx_model(
        nodes=[helper.make_node("RunAnything", ["logits"], ["more"], domain=domain)], outputs=[("more", ["batch", 3])]
    )
    model.opset_import.append(helper.make_opsetid(domain, 1))
    save_onnx(stranger / "m.onnx", model)
    assert "custom operators are not run" in str(refusal(stranger, pictures, "&output=logits").remedy)


def test_options_in_the_file_are_not_taken(stranger: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx_model()
    entry = model.metadata_props.add()
    entry.key, entry.value = "ort_config", '{"session_options": {"enable_profiling": 1}}'
    save_onnx(stranger / "m.onnx", model)
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    before = sorted(stranger.iterdir())
    assert outputs(stranger, pictures).shape == (1, 3)
    assert sorted(stranger.iterdir()) == before  # a profile would be a file in the working folder
    assert os.environ["ORT_LOAD_CONFIG_FROM_MODEL"] == "1"


def test_onnxruntimes_own_format_is_refused_also_under_another_name(stranger: Path, pictures: Pictures) -> None:
    import onnxruntime

    path = save_onnx(stranger / "m.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(stranger / "own.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    assert "not the ending of an ONNX model" in refusal(stranger, pictures, file="own.ort").problem
    (stranger / "own.ort").rename(stranger / "own.onnx")
    assert "does not load the model" in refusal(stranger, pictures, file="own.onnx").problem


def test_the_process_of_the_model_reads_no_other_file_either(
    stranger: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairgate.models.isolated.child import IsolatedModel
    from fairgate.models.onnx import host, session

    monkeypatch.setattr(session, "OnnxSession", OWN_PROCESS)
    path = save_onnx(stranger / "m.onnx")
    assert outputs(stranger, pictures).shape == (1, 3)
    # what an exploited parser could try: a file of the repository that is not the model's
    other = partial(host.opened, {"model": stranger / "secret.bin"}, {"model": sha256_bytes(SECRET.tobytes())})
    with pytest.raises(ModelError, match="Permission denied"):
        IsolatedModel(str(path), other, [path])
    save_onnx(path, in_a_branch("secret.bin"))
    assert "onnxruntime does not load the model" in refusal(stranger, pictures).problem


DAMAGED = {
    "cut short": lambda content: content[:-7],
    "no model": lambda _: b"\x08\x09",
    "text": lambda _: b"hello, this is no model",
    "zeros": lambda _: bytes(5000),
}


@pytest.mark.parametrize("damage", list(DAMAGED))
def test_what_is_no_model_is_an_error_in_three_parts(damage: str, stranger: Path, pictures: Pictures) -> None:
    path = save_onnx(stranger / "m.onnx")
    path.write_bytes(DAMAGED[damage](path.read_bytes()))
    refusal(stranger, pictures)


def test_a_file_of_more_than_two_gigabytes_is_refused_before_it_is_read(stranger: Path, pictures: Pictures) -> None:
    path = save_onnx(stranger / "m.onnx")
    os.truncate(path, (2 << 30) + 1)
    error = refusal(stranger, pictures)
    assert "2,048 MB are read" in error.problem
    assert "labels:FILE" in str(error.remedy)


def test_a_file_that_changes_after_it_was_hashed_is_refused(stranger: Path, pictures: Pictures) -> None:
    path = save_onnx(stranger / "m.onnx")
    scorer = open_scorer(f"onnx:m.onnx?labels=labels.txt&{SHOWN}", pictures, device="cpu", base=stranger)
    stamp, content = path.stat(), bytearray(path.read_bytes())
    content[content.index(b"weights") + 20] ^= 1
    with path.open("r+b") as file:  # the same inode, size and time
        file.write(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(ModelError, match="changed between hashing and loading"):
        scorer.outputs()
