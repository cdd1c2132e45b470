"""Classifiers from strangers: configs of transformers and timm with good weights, files of labels, heads, tables of
labels."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from world import TESTS, World

LABELS = ["Chef", "line_cook", "doctor"]
CONFIGS = {"classifier": ("config.json", "preprocessor_config.json"), "timm": ("config.json",)}


def folder_of(world: World, scheme: str) -> Path:
    """A tiny classifier, saved once."""
    folder = world.root / scheme
    if not folder.exists():
        sys.path.insert(0, str(TESTS / "models"))
        if scheme == "classifier":
            from classifier_world import save_classifier

            save_classifier("vit", folder)
        else:
            import timm
            from timm.models import save_for_hf

            model = timm.create_model("test_vit", pretrained=False, num_classes=3, img_size=32)
            save_for_hf(model, folder, model_config={"label_names": LABELS}, safe_serialization=True)
    return folder


def seeds(scheme: str) -> Callable[[World], list[Any]]:
    def made(world: World) -> list[Any]:
        folder = folder_of(world, scheme)
        return [{name: json.loads((folder / name).read_text(encoding="utf-8")) for name in CONFIGS[scheme]}]

    return made


def use(scheme: str) -> Callable[[World, bytes], None]:
    """The configs of a folder with good weights: all of them in one JSON object, by file name."""

    def predict(world: World, data: bytes) -> None:
        from fairgate.models import open_scorer

        folder = folder_of(world, scheme)
        try:
            files = json.loads(data)
        except (ValueError, RecursionError):
            files = {}
        for name in CONFIGS[scheme]:
            content = files.get(name, {}) if isinstance(files, dict) else {}
            (folder / name).write_bytes(json.dumps(content).encode("utf-8", "surrogatepass"))
        model: Any = open_scorer(f"{scheme}:{folder}", world.source, device="cpu", cache=None)
        assert len(model.predict("job").labels) == len(world.source)

    return predict


def label_files(_: World) -> list[Any]:
    return [LABELS, {"cook": ["chef", "line cook"], "physician": "doctor"}]


def use_labels(world: World, data: bytes) -> None:
    """A file of labels on a good classifier; accepted means: every name of it is found again."""
    from fairgate.models.checkpoints import require_file
    from fairgate.models.classifiers.label_names import named_outputs

    path = world.root / "names.json"
    path.write_bytes(data)
    require_file(path)
    names, _ = named_outputs(LABELS, path.name, world.root, "config.json")
    assert sorted(place for name in names.outputs for place in names.find(name, "x")) == [0, 1, 2]


def heads(_: World) -> list[bytes]:
    import numpy as np
    from safetensors.numpy import save

    said = {"labels": json.dumps(["a", "b"]), "pool": "cls"}
    linear = {"fc.weight": np.ones((2, 4), np.float32), "fc.bias": np.zeros(2, np.float32)}
    return [save(linear, said)]


def use_head(world: World, data: bytes) -> None:
    """A head; accepted means: it answers any features with finite numbers, or says how wide they are."""
    import numpy as np

    from fairgate.models.checkpoints import require_weights
    from fairgate.models.feature_heads import read_head

    path = world.root / "head.safetensors"
    path.write_bytes(data)
    require_weights(path)
    head = read_head(path)
    found = head.logits(np.ones((2, head.weight.shape[1]), np.float32))
    assert found.shape == (2, len(head.weight))


def tables(world: World) -> list[bytes]:
    import pyarrow as pa
    from pyarrow import parquet as pq

    index = world.source.index
    rows = len(world.source)
    named = {"set_id": pa.array(index.set_id.tolist()), "member": pa.array(index.member.tolist())}
    given = {"gender": ["male"] * rows, "gender_confidence": [0.5] * rows}
    held = io.BytesIO()
    pq.write_table(pa.table({**named, **given}), held)
    return [held.getvalue()]


def use_table(world: World, data: bytes) -> None:
    from fairgate.models import open_scorer

    path = world.root / "given.parquet"
    path.write_bytes(data)
    model: Any = open_scorer(f"labels:{path}", world.source, cache=None)
    found = model.predict("gender")
    assert all(isinstance(label, str) for label in found.labels)
