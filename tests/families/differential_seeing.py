"""Detectors and language models that see, in the differential test: the library's own answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from detector_world import CLASSES
from differential_models import Images, Layout, Numbers, save_row
from family_rows import CHAT, LABELS

from fairgate.ground.errors import clean
from fairgate.models import LOWEST_SCORE

SOUGHT = "person"
QUESTION = "Who is it?"
LONGEST = 6
MOST = 6
"""Boxes of a picture that are compared, the highest scores first."""
_MARKS = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl"), "<|image_pad|>"),
    "internvl": "<IMG_CONTEXT>",
    "blip-2": "",
    "blip-2-t5": "",
}


def _boxes(kind: str) -> Callable[[Path, Images], Numbers]:
    def library(root: Path, images: Images) -> Numbers:
        import torch
        import transformers as t

        folder, reads_text = root / f"detector-{kind}", kind in TEXTS
        loader = t.AutoModelForZeroShotObjectDetection if reads_text else t.AutoModelForObjectDetection
        model: Any = loader.from_pretrained(folder, dtype=torch.float32).eval()
        processor: Any = (t.AutoProcessor if reads_text else t.AutoImageProcessor).from_pretrained(folder)
        asked: Any = {kind: {"text": f"{SOUGHT}." if kind in GROUNDED else [[SOUGHT]]} for kind in TEXTS}
        found = []
        for image in images:
            inputs = processor(images=image, return_tensors="pt", **asked.get(kind, {}))
            sizes = {"threshold": LOWEST_SCORE, "target_sizes": [(image.height, image.width)]}
            with torch.no_grad():
                outputs = model(**inputs)
            if kind in GROUNDED:
                read = processor.post_process_grounded_object_detection(outputs, inputs["input_ids"], **sizes)[0]
            elif reads_text:
                read = processor.post_process_grounded_object_detection(outputs, **sizes)[0]
            else:
                read = processor.post_process_object_detection(outputs, **sizes)[0]
            names = [SOUGHT if reads_text else model.config.id2label[int(one)] for one in read["labels"]]
            scores, corners = read["scores"].numpy(), read["boxes"].numpy()
            chosen = [np.array([name == what for name in names], dtype=bool) for what in _sought(kind)]
            found.append(np.stack([_table(scores[one], corners[one]) for one in chosen]))
        return np.stack(found)

    return library


def _table(scores: Numbers, corners: Numbers) -> Numbers:
    """Scores, and corners in hundreds of pixels, so that all are near to 1: (MOST, 5), zeros for no box."""
    made = np.zeros((MOST, 5))
    best = np.argsort(-scores, kind="stable")[:MOST]
    made[: len(best), 0], made[: len(best), 1:] = scores[best], corners[best] / 100
    return made


def _sought(kind: str) -> list[str]:
    return [SOUGHT] if kind in TEXTS else list(CLASSES.values())


def _detected(kind: str) -> Callable[[Any], Numbers]:
    def ours(model: Any) -> Numbers:
        every = [model.detect(what) for what in _sought(kind)]
        rows = [[_table(one.score[one.row == row], one.corners[one.row == row]) for one in every] for row in range(8)]
        return np.stack([np.stack(row) for row in rows])

    return ours


def _loaded(folder: Path) -> tuple[Any, Any]:
    import torch
    import transformers as t

    model: Any = t.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), t.AutoProcessor.from_pretrained(folder)


def _whole(processor: Any, kind: str, before: str, after: str) -> str:
    """The text around a picture, in the folder's chat template if it has one."""
    if not processor.chat_template:
        return before + _MARKS.get(kind, "<image>") + after
    words = [{"type": "text", "text": text} for text in (before, after)]
    content = [each for each in (words[0], {"type": "image"}, words[1]) if each.get("text", "-")]
    asked = [{"role": "user", "content": content}]
    return str(processor.apply_chat_template(asked, add_generation_prompt=True, tokenize=False))


def _answers(kind: str) -> Callable[[Path, Images], Numbers]:
    """As a script calls `generate`: with a length, and all else as the folder says."""
    before, after = CHAT.replace("{question}", QUESTION).split("{image}")

    def library(root: Path, images: Images) -> Numbers:
        import torch

        model, processor = _loaded(root / f"vlm-{kind}")
        text, said = _whole(processor, kind, before, after), []
        for image in images:
            inputs = processor(images=[image], text=[text], return_tensors="pt")
            with torch.no_grad():
                made = model.generate(**inputs, max_new_tokens=LONGEST)
            length = inputs["input_ids"].shape[1]
            new = made[:, length:] if torch.equal(made[:, :length], inputs["input_ids"]) else made
            said.append(processor.batch_decode(new, skip_special_tokens=True)[0].strip())
        return _spelled([clean(each) for each in said])  # as what an isolated process writes is cleaned

    return library


def _spelled(texts: Sequence[str]) -> Numbers:
    """Texts as numbers of their characters, (texts, 100)."""
    return np.array([[ord(letter) for letter in text.ljust(100)[:100]] for text in texts], dtype=np.float64)


def _likelihoods(kind: str) -> Callable[[Path, Images], Numbers]:
    """Each label's tokens, scored in a forward pass of the whole text."""

    def library(root: Path, images: Images) -> Numbers:
        import torch

        model, processor = _loaded(root / f"vlm-{kind}")
        text, rows = _whole(processor, kind, "", f"Question: {QUESTION} Short Answer:"), []
        for image in images:
            before = int(processor(images=[image], text=[text], return_tensors="pt")["attention_mask"].sum())
            sums = []
            for label in LABELS:
                # PaliGemma reads what follows its prompt as a suffix, which it ends
                asked = {"text": [text], "suffix": [label]} if kind == "paligemma" else {"text": [f"{text} {label}"]}
                inputs = processor(images=[image], return_tensors="pt", truncation=False, **asked)
                inputs.pop("labels", None)
                ids, padded = inputs["input_ids"][0], int((1 - inputs["attention_mask"]).sum())
                after = range(padded + before, len(ids) - (kind == "paligemma"))
                with torch.no_grad():
                    logits = model(**inputs).logits[0, -len(ids) :].double().log_softmax(-1)
                sums.append(sum(float(logits[at - 1, ids[at]]) for at in after))
            rows.append(sums)
        return torch.log_softmax(torch.tensor(rows, dtype=torch.float64), dim=1).numpy()

    return library


_SAFE = "model.safetensors"
_BOXES: dict[str, Any] = {"pictures": "", "depth": 48, "group": "detector"}


def _detector(kind: str, row: str = "detector") -> Layout:
    folder = f"detector-{kind}"
    return Layout(save_row(row, kind), folder, _SAFE, _boxes(kind), _detected(kind), **_BOXES, brief=kind != "yolos")


def _chat(kind: str) -> Layout:
    def ours(model: Any) -> Numbers:
        return _spelled(model.answer([QUESTION] * 8, LONGEST))

    def save(root: Path) -> str:
        from safetensors.torch import load_file, save_file

        uri = save_row("vlm-chat", kind)(root)
        if kind == "blip-2":  # else all pictures have one answer
            path = root / f"vlm-{kind}" / _SAFE
            state = load_file(path).items()
            wider = {name: 5 * one if "qformer" in name and one.ndim == 2 else one for name, one in state}
            save_file(wider, path, metadata={"format": "pt"})
        return uri

    more: dict[str, Any] = {"pictures": "", "group": "chat", "near": 1e-9, "brief": kind != "llava"}
    return Layout(save, f"vlm-{kind}", _SAFE, _answers(kind), ours, **more)


def _question(kind: str) -> Layout:
    def ours(model: Any) -> Numbers:
        return model.log_probabilities(LABELS)

    more: dict[str, Any] = {"pictures": "", "group": "vlm", "brief": kind != "qwen3_vl"}
    return Layout(save_row("vlm-question", kind), f"vlm-{kind}", _SAFE, _likelihoods(kind), ours, **more)


KINDS = ("yolos", "detr", "conditional_detr", "rt_detr", "rt_detr_v2")
GROUNDED = ("grounding-dino", "mm-grounding-dino")
TEXTS = ("owlvit", "owlv2", *GROUNDED)
CHATS = ("llava", "qwen2_vl", "paligemma", "blip-2", "blip-2-t5", "internvl", "llava_next", "llava_onevision")
QUESTIONS = ("llava", "qwen2_5_vl", "paligemma", "blip-2", "internvl", "qwen3_vl", "idefics3")
SEEING: dict[str, Layout] = {
    **{f"detector {kind}": _detector(kind) for kind in KINDS},
    **{f"detector {kind}": _detector(kind, "detector-text") for kind in TEXTS if kind != "mm-grounding-dino"},
    **{f"vlm chat {kind}": _chat(kind) for kind in CHATS},
    **{f"vlm question {kind}": _question(kind) for kind in QUESTIONS},
}
