"""The rows of docs/reference/families.md: every family, and every kind of its models that can do something else.

A row is a name, how its tiny models are saved in the format of the library that made them, and the URI. `save` is
called with one of the `kinds` and the root of a repository (`family_release`), and returns the URI.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from family_probes import COLUMNS, SUBJECTS, WITHHELD
from family_release import numbers, write_table

from fairgate.models import fit_projection

Save = Callable[[str, Path], str]
LABELS = [*SUBJECTS, WITHHELD]
CHAT = "{image}{question} Answer:"
"""A chat without words between picture and question."""


@dataclass(frozen=True)
class Row:
    """A family, or a part of it. `kinds` are the models that must all behave alike: a pull request runs the first."""

    title: str
    save: Save
    kinds: tuple[str, ...]
    names: str = ""
    """What the page says of the kinds."""


def _folder(root: Path, name: str, save: Callable[[Path], object]) -> str:
    """A folder of the repository, saved once; its name."""
    if not (root / name).exists():
        save(root / name)
    return name


def _hf(kind: str, root: Path) -> str:
    from hf_world import save_folder

    return "hf:" + _folder(root, f"hf-{kind}", lambda path: save_folder(kind, path))


def _open_clip(_: str, root: Path) -> str:
    import open_clip
    import torch
    from model_world import TINY, save_local_dir

    def save(path: Path) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            save_local_dir(path, open_clip.model.CLIP(**TINY))

    return "open_clip:local-dir:" + _folder(root, "open_clip", save)


def _towers(kind: str, root: Path) -> str:
    return (_open_clip if kind == "open_clip" else _hf)(kind, root)


def _classifier(kind: str, root: Path) -> str:
    from classifier_world import save_classifier

    return "classifier:" + _folder(root, f"classifier-{kind}", lambda path: save_classifier(kind, path, LABELS))


def _timm(kind: str, root: Path) -> str:
    from classifier_world import save_timm

    sizes = {"img_size": 64} if kind == "test_vit" else {}
    return "timm:" + _folder(root, f"timm-{kind}", lambda path: save_timm(kind, path, LABELS, **sizes))


def _torchvision(_: str, root: Path) -> str:
    import torch
    from safetensors.torch import save_file
    from torchvision.models import squeezenet1_1

    def save(path: Path) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            save_file(squeezenet1_1(num_classes=len(LABELS)).state_dict(), path)

    (root / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    return f"torchvision:squeezenet1_1@{_folder(root, 'squeezenet.safetensors', save)}?labels=labels.txt"


def _onnx(_: str, root: Path) -> str:
    import pytest

    pytest.importorskip("onnx")
    from onnx_world import SHOWN, onnx_model, save_onnx

    path = _folder(root, "tiny.onnx", lambda path: save_onnx(path, onnx_model(width=len(LABELS)), LABELS))
    return f"onnx:{path}?labels=labels.txt&{SHOWN}"


def _onnx_towers(_: str, root: Path) -> str:
    import pytest

    pytest.importorskip("onnx")
    from hf_world import tiny_tokenizer
    from onnx_world import SHOWN, TOKENS, save_onnx, towers_model

    image, text = (
        _folder(root, f"{tower}-tower.onnx", lambda path, tower=tower: save_onnx(path, towers_model(tower)))  # type: ignore[misc]
        for tower in ("image", "text")
    )
    words = _folder(root, "onnx-words", lambda path: tiny_tokenizer().save_pretrained(path))
    return f"onnx:{image}?text={text}&processor={words}&length={TOKENS}&logit_scale=100&{SHOWN}"


def _served(more: str) -> Save:
    """A server of this process, which the environment names from then on."""

    def save(_: str, __: Path) -> str:
        import atexit
        import os
        from contextlib import ExitStack

        from served_world import MODEL, World, serving, settings

        world = World(says=lambda *_: f"A {SUBJECTS[0]}.", label=lambda colour, text: -len(text) - colour[0] / 256)
        stack = ExitStack()
        atexit.register(stack.close)
        os.environ.update(settings(stack.enter_context(serving(world))))
        return f"openai:@vision?model={MODEL}{more}"

    return save


def _onnx_boxes(_: str, root: Path) -> str:
    import numpy as np
    import pytest

    pytest.importorskip("onnx")
    from onnx_world import boxes_model, save_onnx

    found = {"logits": np.eye(2), "pred_boxes": np.full((2, 4), 0.5)}
    path = _folder(root, "boxes.onnx", lambda path: save_onnx(path, boxes_model(found)))
    (root / "classes.txt").write_text("person\ncar", encoding="utf-8")
    return f"onnx:{path}?labels=classes.txt&boxes=rt_detr&size=64&scale=1/255"


def _features(kind: str, root: Path) -> str:
    from feature_world import linear, save_backbone

    folder = _folder(root, f"features-{kind}", lambda path: save_backbone(kind, path))
    pool, width = ("pooled", 8) if kind == "convnext" else ("cls", 16)
    head = _folder(root, f"head-{kind}.safetensors", lambda path: linear(path, width, labels=LABELS))
    return f"features:{folder}?head={head}&pool={pool}"


def _detector(kind: str, root: Path) -> str:
    from detector_world import save_detector

    return "detector:" + _folder(root, f"detector-{kind}", lambda path: save_detector(kind, path))


def _seeing(option: str) -> Save:
    def save(kind: str, root: Path) -> str:
        from vlm_world import save_vlm

        return f"vlm:{_folder(root, f'vlm-{kind}', lambda path: save_vlm(kind, path))}?{option}"

    return save


def _captions(kind: str, root: Path) -> str:
    from language_world import save_language

    language = _folder(root, f"language-{kind}", lambda path: save_language(kind, path))
    captioner = _seeing("prompt={image}A photo of")("llava", root)
    return f"captions:{language}?question=Who is it?&captioner={captioner}"


def _flux(_: str, root: Path) -> str:
    from flux_world import SIDE, save_flux

    return f"diffusion:{_folder(root, 'flux', save_flux)}?size={SIDE}"


def _diffusion(kind: str, root: Path) -> str:
    from diffusion_world import build

    return f"diffusion:{_folder(root, f'diffusion-{kind}', lambda path: build(kind).save_pretrained(path))}?samples=2"


def _peft(base: Save, loader: str | Callable[[Path], Any]) -> Save:
    """A LoRA on a base that `loader` opens: a class of transformers, or a function."""

    def save(kind: str, root: Path) -> str:
        import transformers
        from peft_world import save_adapter

        uri = base(kind, root)
        folder = uri.rpartition(":")[2] if "?" not in uri else uri.partition(":")[2].partition("?")[0]
        load = getattr(transformers, loader).from_pretrained if isinstance(loader, str) else loader

        def adapt(path: Path) -> None:
            model = load(root / folder)
            save_adapter(model, path, target_modules=_attention(model))

        return f"peft:{_folder(root, f'lora-{folder}', adapt)}?base={uri}"

    return save


def _attention(model: Any) -> list[str]:
    """Names of the layers that make queries and values, as they are called in this model; of an open_clip, which has
    none of its own for them, of the layers after them."""
    leaves = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    return sorted(leaves & {"q_proj", "v_proj", "query", "value", "qkv", "c_fc"})


def _of_open_clip(folder: Path) -> Any:
    import open_clip

    return open_clip.create_model(f"local-dir:{folder}")


def _of_timm(folder: Path) -> Any:
    import timm

    return timm.create_model(f"local-dir:{folder}", pretrained=True)


def _debiased(origin: Save) -> Save:
    def save(kind: str, root: Path) -> str:
        uri = origin(kind, root)

        def fit(path: Path) -> None:
            path.write_text(fit_projection(uri, ["a photo of a man"], device="cpu", base=root).model_dump_json())

        named = re.sub(r"\W+", "-", uri)
        return f"debiased:{_folder(root, f'projection-{named}.json', fit)}?model={uri}"

    return save


def _texts() -> list[str]:
    """Every text that the columns show a model."""
    from fairgate.probes import PROBES

    found = [PROBES[one.kind].model_validate(one.probe).texts(SUBJECTS) for one in COLUMNS.values()]
    return list(dict.fromkeys(text for texts in found for text in texts))


def _scores(_: str, root: Path) -> str:
    texts = _texts()
    write_table(root / "scores.csv", texts, lambda row, _: numbers(row, len(texts)))
    return "scores:scores.csv?values=cosine&logit_scale=10"


def _embeddings(_: str, root: Path) -> str:
    import csv

    width = [str(place) for place in range(4)]
    write_table(root / "embeddings" / "images.csv", width, lambda row, _: numbers(row, 4))
    with (root / "embeddings" / "texts.csv").open("w", newline="", encoding="utf-8") as handle:
        rows: Iterable[list[object]] = ([text, *numbers(100 + at, 4)] for at, text in enumerate(_texts()))
        csv.writer(handle).writerows([["text", *width], *rows])
    return "embeddings:embeddings?logit_scale=10"


def _labels(_: str, root: Path) -> str:
    write_table(root / "predicted.csv", ["subject"], lambda row, subject: [subject if row % 3 else SUBJECTS[0]])
    return "labels:predicted.csv"


def _answers(_: str, root: Path) -> str:
    write_table(root / "answers.csv", ["answer"], lambda _, subject: [f"A {subject}."])
    return "answers:answers.csv"


def _numbers(_: str, root: Path) -> str:
    write_table(root / "numbers.csv", ["number"], lambda row, _: [row / 10])
    return "numbers:numbers.csv"


def _detections(_: str, root: Path) -> str:
    columns = ["label", "score", "left", "top", "right", "bottom"]
    write_table(root / "boxes.csv", columns, lambda row, _: ["person", 0.1 + row / 10, 4, 4, 60 - row, 50])
    return "detections:boxes.csv"


_CLASSIFYING, _DETECTING = "AutoModelForImageClassification", "AutoModelForObjectDetection"
_SEEING = "AutoModelForImageTextToText"
ONE = ("",)
_CLASSES = ("yolos", "detr", "conditional_detr", "deformable_detr", "rt_detr", "rt_detr_v2")
_SEEN = ("llava", "qwen2_vl", "qwen2_5_vl", "paligemma", "blip-2", "internvl", "blip-2-t5")
_SEEN += ("qwen3_vl", "llava_next", "llava_onevision", "smolvlm", "idefics3")

ROWS: dict[str, Row] = {
    "open_clip": Row("open_clip", _open_clip, ONE),
    "hf": Row("hf", _hf, ("clip", "siglip", "siglip2", "chinese_clip", "align", "flava")),
    "diffusion-flux": Row("diffusion, a FLUX", _flux, ONE),
    "diffusion": Row("diffusion", _diffusion, ("sd1", "sd2", "sdxl")),
    "vlm-question": Row("vlm `?question=`", _seeing("question=Who is it?"), _SEEN),
    "vlm-chat": Row("vlm `?chat=`", _seeing(f"chat={CHAT}"), _SEEN),
    "captions": Row("captions", _captions, ("llama", "t5")),
    "classifier": Row(
        "classifier",
        _classifier,
        (
            "vit",
            "deit",
            "convnext",
            "convnextv2",
            "dinov2",
            "dinov2_with_registers",
            "swin",
            "swinv2",
            "resnet",
            "clip",
            "siglip",
            "siglip2",
        ),
    ),
    "timm": Row("timm", _timm, ("test_vit", "test_resnet", "test_convnext", "test_efficientnet")),
    "torchvision": Row("torchvision", _torchvision, ONE),
    "onnx": Row("onnx `?labels=`", _onnx, ONE),
    "onnx-text": Row("onnx `?text=`", _onnx_towers, ONE),
    "onnx-boxes": Row("onnx `?boxes=`", _onnx_boxes, ONE),
    "openai-question": Row("openai `?question=`", _served("&question=Who is it?"), ONE),
    "openai-chat": Row("openai `?chat=`", _served(f"&chat={CHAT}"), ONE),
    "features": Row("features", _features, ("dinov2", "dinov2_with_registers", "dinov3_vit", "vit", "convnext")),
    "detector": Row("detector, of classes", _detector, _CLASSES),
    "detector-text": Row("detector, of texts", _detector, ("owlvit", "owlv2", "grounding-dino", "mm-grounding-dino")),
    "peft-hf": Row("peft on hf", _peft(_hf, "AutoModel"), ("clip", "siglip")),
    "peft-classifier": Row("peft on classifier", _peft(_classifier, _CLASSIFYING), ("vit", "swin")),
    "peft-open_clip": Row("peft on open_clip", _peft(_open_clip, _of_open_clip), ONE),
    "peft-timm": Row("peft on timm", _peft(_timm, _of_timm), ("test_vit",)),
    "peft-features": Row("peft on features", _peft(_features, "AutoModel"), ("dinov2", "vit")),
    "peft-detector": Row("peft on detector", _peft(_detector, _DETECTING), ("yolos", "detr")),
    "peft-detector-text": Row(
        "peft on detector, of texts", _peft(_detector, "AutoModelForZeroShotObjectDetection"), ("owlvit", "owlv2")
    ),
    "peft-vlm-question": Row("peft on vlm `?question=`", _peft(_seeing("question=Who is it?"), _SEEING), ("llava",)),
    "peft-vlm-chat": Row("peft on vlm `?chat=`", _peft(_seeing(f"chat={CHAT}"), _SEEING), ("llava",)),
    "debiased-hf": Row("debiased on hf, open_clip", _debiased(_towers), ("clip", "siglip", "open_clip")),
    "scores": Row("scores", _scores, ONE),
    "embeddings": Row("embeddings", _embeddings, ONE),
    "labels": Row("labels", _labels, ONE),
    "answers": Row("answers", _answers, ONE),
    "detections": Row("detections", _detections, ONE),
    "numbers": Row("numbers", _numbers, ONE),
}


def nested(key: str, root: Path) -> dict[str, str]:
    """URIs of a row's first model behind an adapter, and behind a mitigation: its own where one can be made, else that
    of the row `hf`."""
    row = ROWS[key]
    kind, hf = row.kinds[0], ROWS["hf"].kinds[0]
    uri = row.save(kind, root)
    adapted = ROWS.get(f"peft-{key}")
    if adapted is not None:
        lora = adapted.save(kind, root)
    else:
        lora = f"{ROWS['peft-hf'].save(hf, root).partition('?')[0]}?base={uri}"
    if key in _TWO_TOWERS:
        projected = _debiased(row.save)(kind, root)
    else:
        projected = f"{ROWS['debiased-hf'].save(hf, root).partition('?')[0]}?model={uri}"
    return {"peft:DIR?base=": lora, "debiased:FILE?model=": projected}


_TWO_TOWERS = ("open_clip", "hf", "peft-hf")
