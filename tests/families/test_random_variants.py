"""No random composition of edits of a model's files has fairgate answer otherwise than the library that reads them."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from differential import Compared, tolerance
from differential_models import LAYOUTS, Images, Layout, Numbers
from differential_variants import Edit, both_shards, doubled_in_index, omitted_shard, sharded, tensors
from family_files import _plain
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

LIBRARIES = {
    "peft": ["peft on hf clip", "peft on classifier vit"],
    "timm": ["timm test_vit"],
    "torchvision": ["torchvision squeezenet"],
    "open_clip": ["open_clip local-dir", "open_clip ARCH@FILE"],
    "transformers": [
        "hf clip",
        "classifier vit",
        "hf siglip",
        "classifier convnext",
        "features dinov2",
    ],
}
EXAMPLES = int(os.environ.get("FAIRGATE_EXAMPLES", "100"))
PREFIXES = ("module.", "_orig_mod.", "model.")
"""Of all names, when training wrote the file: documented, and read as the file without them."""
NAMES = [
    *(
        f"{prefix}{{}}"
        for prefix in (*PREFIXES, "base_model.model.", "ema.", "vision_model.", "text.", "visual.trunk.")
    ),
    *(f"{{stem}}.{part}.{{leaf}}" for part in ("base_layer", "default", "_orig_mod", "module")),
    *("{}_before", "{stem}.gamma", "{stem}.{leaf}_v", "{stem}.{leaf}.default"),
]
EXTRA = [
    "another.weight",
    "logit_bias",
    "n_averaged",
    "classifier.weight",
    "head.bias",
    "lora_A.weight",
    "position_ids",
]
DTYPES = ["float16", "bfloat16", "float64", "int8"]
BESIDE = ["model.safetensors", "pytorch_model.bin", "adapter_model.bin", "open_clip_pytorch_model.bin", "model.pth"]
NEAR = "near"
VALUES: list[Any] = [
    *[NEAR] * 8,
    *(None, True, False, 0, 1, 2, 3, 32, 0.5, 1.5, "", "max", "avg", "token", "gelu", "quick_gelu", "relu", "all"),
    *("bilinear", "nearest", "squash", "shortest", "longest", "border", "float16", "float32", "eager", "L"),
    *([], {}, [0.1, 0.4, 0.7], [32, 32], [3, 48, 48], {"height": 32, "width": 32}, {"shortest_edge": 40}, {"a": 1}),
    *("SEQ_CLS", "lora_only", "gaussian", "q_proj", ["q_proj"], ["visual_projection"], ["classifier"]),
]

Change = tuple[Any, ...]
"""The name of one of `EDITS`, and its arguments."""


def _at(state: Mapping[str, Any], place: int) -> str:
    return sorted(state)[place % len(state)]


def _named(form: str, name: str) -> str:
    stem, _, leaf = name.rpartition(".")
    return form.format(name, stem=stem, leaf=leaf)


def _renamed(place: int | None, form: str) -> Edit:
    def change(state: dict[str, Any]) -> dict[str, Any]:
        chosen = set(state) if place is None else {_at(state, place)}
        return {(_named(form, name) if name in chosen else name): one for name, one in state.items()}

    return tensors(change)


def _doubled(place: int, form: str) -> Edit:
    def change(state: dict[str, Any]) -> dict[str, Any]:
        first = _at(state, place)
        return {**state, _named(form, first): state[first] * 2 + 1}

    return tensors(change)


def _dropped(place: int) -> Edit:
    return tensors(lambda state: {name: one for name, one in state.items() if name != _at(state, place)})


def _added(name: str) -> Edit:
    import torch

    return tensors(lambda state: {**state, name: torch.ones(3)})


def _cast(place: int | None, kind: str) -> Edit:
    import torch

    def change(state: dict[str, Any]) -> dict[str, Any]:
        chosen = set(state) if place is None else {_at(state, place)}
        return {name: one.to(getattr(torch, kind)) if name in chosen else one for name, one in state.items()}

    return tensors(change)


def _sharded(spoil: Callable[[Path], None] | None, kept: bool) -> Edit:
    def edit(folder: Path, layout: Layout) -> None:
        whole = (folder / layout.weights).read_bytes()
        sharded(spoil)(folder, layout)
        if kept:
            (folder / layout.weights).write_bytes(whole)

    return edit


def _beside(name: str, other: bool, alone: bool) -> Edit:
    """A second file of weights, of other numbers, or the first under another name."""

    def edit(folder: Path, layout: Layout) -> None:
        import torch
        from safetensors.torch import load_file

        path = folder / layout.weights
        state = {name: one * 2 + 1 if other else one for name, one in load_file(path).items()}
        if alone:
            path.unlink()
        if name.endswith("safetensors"):
            _plain(folder / name, state)
        else:
            torch.save(state, folder / name)

    return edit


def _key(pictures: bool, place: int, key: int, value: Any) -> Edit:
    """A key that the library or fairgate knows, in one of the objects of a config: another value, or one near to what
    is there; None removes it."""

    def edit(folder: Path, layout: Layout) -> None:
        path = folder / (layout.pictures if pictures else layout.config)
        said = json.loads(path.read_text(encoding="utf-8"))
        objects = list(_objects(said))
        chosen = objects[place % len(objects)]
        known = sorted({*chosen, *_known(layout)})
        name = known[key % len(known)]
        if value is None and name in chosen:
            del chosen[name]
        else:
            chosen[name] = _near(chosen.get(name)) if value == NEAR else value
        note(f"{path.name}: {name} = {chosen.get(name)!r}")
        path.write_text(json.dumps(said), encoding="utf-8")

    return edit


def _near(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 2
    return [_near(one) for one in value] if isinstance(value, list) else value


def _objects(said: Any) -> Iterator[dict[str, Any]]:
    if isinstance(said, dict):
        yield said
        for value in said.values():
            yield from _objects(value)


def _known(layout: Layout) -> set[str]:
    """Keys that a library's classes of configs have."""
    import open_clip.model as open_clip
    import peft
    import transformers as t
    from open_clip.transform import PreprocessCfg
    from timm.models import PretrainedCfg, VisionTransformer

    def fields(*kinds: Any) -> set[str]:
        return {one.name for kind in kinds for one in dataclasses.fields(kind)}

    if "adapter" in layout.config:
        return fields(peft.LoraConfig)
    if "open_clip" in layout.config:
        return fields(open_clip.CLIPVisionCfg, open_clip.CLIPTextCfg, PreprocessCfg) | {
            *inspect.signature(open_clip.CLIP).parameters,
            *("custom_text", "multimodal_cfg"),
        }
    if layout.pictures == "config.json":
        return fields(PretrainedCfg) | {*inspect.signature(VisionTransformer).parameters, "model_args", "label_names"}
    image: Any = t.CLIPImageProcessor()
    return {*t.CLIPConfig().to_dict(), *t.ViTConfig().to_dict(), *image.to_dict(), "problem_type", "rescale_factor"}


EDITS: dict[str, Callable[..., Edit]] = {
    "renamed": _renamed,
    "doubled": _doubled,
    "dropped": _dropped,
    "added": _added,
    "cast": _cast,
    "sharded": _sharded,
    "beside": _beside,
    "key": _key,
}


def changes(layout: Layout) -> st.SearchStrategy[list[Change]]:
    """A few edits; shards come last, as they take the file apart."""
    place, some = st.integers(0, 200), st.none() | st.integers(0, 200)
    kinds = [
        st.tuples(st.just("renamed"), some, st.sampled_from(NAMES)),
        st.tuples(st.just("doubled"), place, st.sampled_from(NAMES)),
        st.tuples(st.just("dropped"), place),
        st.tuples(st.just("added"), st.sampled_from(EXTRA)),
        st.tuples(st.just("cast"), some, st.sampled_from(DTYPES)),
    ]
    if layout.config:
        files = st.booleans() if layout.pictures else st.just(False)
        kinds += [st.tuples(st.just("key"), files, st.integers(0, 9), place, st.sampled_from(VALUES))] * 5
    last: list[st.SearchStrategy[list[Change]]] = [st.just([])]
    if layout.config:
        last += [st.tuples(st.just("beside"), st.sampled_from(BESIDE), st.booleans(), st.booleans()).map(lambda x: [x])]
    if layout.shards:
        spoilt = st.sampled_from([None, doubled_in_index, both_shards, omitted_shard])
        last += [st.tuples(st.just("sharded"), spoilt, st.booleans()).map(lambda one: [one])]
    return st.tuples(st.lists(st.one_of(kinds), max_size=3), st.one_of(last)).map(lambda both: both[0] + both[1])


def unwrapped(layout: Layout) -> Layout:
    """A layout whose library is shown names without those of training's wrappers, where it refuses them."""

    def library(root: Path, images: Images) -> Numbers:
        import torch

        try:
            return layout.library(root, images)
        except Exception:
            for path in (root / layout.folder).glob("*.bin"):
                torch.save(_plain_names(torch.load(path)), path)
            if (root / layout.folder / layout.weights).exists():
                tensors(_plain_names)(root / layout.folder, layout)
            return layout.library(root, images)

    return dataclasses.replace(layout, library=library)


def _plain_names(state: dict[str, Any]) -> dict[str, Any]:
    names = {name: name.replace("_orig_mod.", "") for name in state}
    for prefix in PREFIXES * 3:
        if all(name.startswith(prefix) for name in names.values()):
            names = {name: short.removeprefix(prefix) for name, short in names.items()}
    return {short: state[name] for name, short in names.items()}


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", LIBRARIES)
def test_no_composition_of_edits_is_judged_otherwise_than_its_library_computes(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    compared, counts = Compared(tmp_path), Counter[str]()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=False,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(LIBRARIES[library]))
        drawn: Sequence[Change] = data.draw(changes(LAYOUTS[key]))

        def edit(folder: Path, layout: Layout) -> None:
            for name, *arguments in drawn:
                EDITS[name](*arguments)(folder, layout)

        found = compared.outcome(key, edit, unwrapped(LAYOUTS[key]))
        same = found.kind == "equal" or found.largest <= tolerance(LAYOUTS[key])
        counts["refused" if found.kind == "refused" else "equal" if same else "different"] += 1
        note(found.said)
        assert found.kind == "refused" or same

    try:
        holds()
    finally:
        print(f"{library}: {dict(counts)}")
