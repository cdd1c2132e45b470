"""Tiny ONNX models with random weights, written by `onnx`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LABELS = ["chef", "doctor", "nurse"]
SIDE = 8
SHOWN = f"size={SIDE}&mean=0.5,0.4,0.3&std=0.25"
"""How pictures are prepared, as a URI says it."""


def weights(width: int = 3, seed: int = 0) -> np.ndarray:
    """Of a linear classifier of the average colours: (3, width) float32."""
    return np.random.default_rng(seed).normal(0, 3, (3, width)).astype(np.float32)


def onnx_model(
    *,
    shape: Sequence[Any] = ("batch", 3, SIDE, SIDE),
    width: int = 3,
    seed: int = 0,
    kind: int = TensorProto.FLOAT,
    ends: Sequence[str] = (),
    nodes: Sequence[Any] = (),
    outputs: Sequence[tuple[str, Sequence[Any]]] = (),
) -> onnx.ModelProto:
    """Average colours times weights, `ends` after each other (Softmax, Sigmoid), and further nodes and outputs."""
    axes = [2, 3] if list(shape)[1] == 3 else [1, 2]
    channels = 1 if list(shape)[3] == 1 else 3
    matrix = numpy_helper.from_array(weights(width, seed)[:channels], "weights")
    body = [
        helper.make_node("Cast", ["pixels"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats", "axes"], ["colours"], keepdims=0),
        helper.make_node("MatMul", ["colours", "weights"], ["end0"]),
        *(helper.make_node(end, [f"end{at}"], [f"end{at + 1}"]) for at, end in enumerate(ends)),
        helper.make_node("Identity", [f"end{len(ends)}"], ["logits"]),
        *nodes,
    ]
    told = [("logits", [shape[0], width]), *outputs]
    graph = helper.make_graph(
        body,
        "tiny",
        [helper.make_tensor_value_info("pixels", kind, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(sides)) for name, sides in told],
        [matrix, numpy_helper.from_array(np.array(axes, dtype=np.int64), "axes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def save_onnx(path: Path, model: onnx.ModelProto | None = None, labels: Sequence[str] = LABELS) -> Path:
    """A model, and `labels.txt` next to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((model or onnx_model()).SerializeToString())
    (path.parent / "labels.txt").write_text("\n".join(labels), encoding="utf-8")
    return path


def with_data(path: Path, location: str, write: Path | None) -> Path:
    """A model whose weights are in another file, which it calls `location`; written to `write`."""
    model = onnx_model()
    tensor = next(each for each in model.graph.initializer if each.name == "weights")
    raw = tensor.raw_data
    point_outside(tensor, location)
    if write is not None:
        write.parent.mkdir(parents=True, exist_ok=True)
        write.write_bytes(raw)
    return save_onnx(path, model)


def point_outside(tensor: Any, location: str) -> None:
    """Have a tensor's numbers come from another file."""
    length = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "0", "length": str(length)}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value


WIDTH, WORDS = 4, 16
TOKENS = 12


def tower_weights(seed: int = 0) -> dict[str, np.ndarray]:
    """Of two towers: vectors of colours, (3, WIDTH), and of tokens, (WORDS, WIDTH)."""
    draws = np.random.default_rng(seed)
    shapes = {"colours": (3, WIDTH), "words": (WORDS, WIDTH)}
    return {name: draws.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def towers_model(
    *parts: str, batch: Any = "texts", length: Any = "length", more: str = "", seed: int = 0, mask: bool = True
) -> onnx.ModelProto:
    """`image`, `text`, or both in one: average colours times a matrix; the sum of the vectors of a text's tokens."""
    nodes: list[Any] = []
    inputs: list[Any] = []
    outputs: list[Any] = []
    tensors: list[Any] = []
    tables = tower_weights(seed)
    if "image" in parts:
        inputs.append(helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["images", 3, SIDE, SIDE]))
        tensors += [numpy_helper.from_array(np.array([2, 3], dtype=np.int64), "axes")]
        tensors += [numpy_helper.from_array(tables["colours"], "colours")]
        nodes += [helper.make_node("ReduceMean", ["pixel_values", "axes"], ["means"], keepdims=0)]
        nodes += [helper.make_node("MatMul", ["means", "colours"], ["image_embeds"])]
        outputs.append(helper.make_tensor_value_info("image_embeds", TensorProto.FLOAT, ["images", WIDTH]))
    if "text" in parts:
        names = ["input_ids", *(["attention_mask"] if mask else []), *filter(None, [more])]
        inputs += [helper.make_tensor_value_info(name, TensorProto.INT64, [batch, length]) for name in names]
        tensors += [numpy_helper.from_array(np.array([1], dtype=np.int64), "places")]
        tensors += [numpy_helper.from_array(np.array([2], dtype=np.int64), "last")]
        tensors += [numpy_helper.from_array(tables["words"], "words")]
        nodes += [helper.make_node("Gather", ["words", "input_ids"], ["vectors"])]
        if mask:
            nodes += [helper.make_node("Cast", ["attention_mask"], ["there"], to=TensorProto.FLOAT)]
            nodes += [helper.make_node("Unsqueeze", ["there", "last"], ["wide"])]
            nodes += [helper.make_node("Mul", ["vectors", "wide"], ["kept"])]
        nodes += [helper.make_node("ReduceSum", ["kept" if mask else "vectors", "places"], ["text_embeds"], keepdims=0)]
        outputs.append(helper.make_tensor_value_info("text_embeds", TensorProto.FLOAT, [batch, WIDTH]))
    if len(parts) > 1:
        nodes += [helper.make_node("Transpose", ["text_embeds"], ["turned"], perm=[1, 0])]
        nodes += [helper.make_node("MatMul", ["image_embeds", "turned"], ["logits_per_image"])]
        outputs.insert(0, helper.make_tensor_value_info("logits_per_image", TensorProto.FLOAT, ["images", batch]))
    graph = helper.make_graph(nodes, "towers", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def boxes_model(tables: dict[str, np.ndarray], side: int = 64) -> onnx.ModelProto:
    """A detector that finds the same in every picture, up to a thousandth of the picture's mean."""
    tensors = [
        numpy_helper.from_array(table.astype(np.float32)[None], f"told_{name}") for name, table in tables.items()
    ]
    tensors.append(numpy_helper.from_array(np.array([1, 2, 3], dtype=np.int64), "axes"))
    tensors.append(numpy_helper.from_array(np.array([1e-3], dtype=np.float32), "little"))
    body = [
        helper.make_node("ReduceMean", ["pixels", "axes"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "little"], ["moved"]),
        *(helper.make_node("Add", [f"told_{name}", "moved"], [name]) for name in tables),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in tables]
    shape = [1, 3, side, side]
    given = [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(body, "boxes", given, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
