"""Language models that see: fairgate beside its library's own batches, pictures a second.

    python -m benchmarks.vlm --out vlm.json    # on a GPU; --tiny: small models on a CPU, in processor time

Random weights in the shapes of LLaVA-1.5-7B, Qwen2-VL-2B and SmolVLM-256M, JPEGs of 448 pixels, LENS's prompt.
Likelihoods of 20 labels and greedy answers of 20 tokens, each as the gate computes them of a folder, in the isolated
process, without a cache and without the time of opening it; and as transformers does in this process in bfloat16, in
batches of several sizes: a forward pass over every picture with every label, padded, that keeps the logits of the
label alone; and `generate`. All begin with encoded images. The library prepares a picture once for all labels. "model
alone" has its batches on the GPU already. Medians, in turn, after a round that is not counted. On a CPU the time is
that of the processors, of both processes.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import psutil
import torch
import transformers as t
from PIL import Image

from benchmarks._photographs import KINDS, photographs
from benchmarks.embedding import machine
from fairgate.data import Dataset, read_dataset
from fairgate.models import checkpoints, open_scorer
from fairgate.models.vlm.asking import LENS
from fairgate.models.vlm.seeing import VisionLanguage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
import vlm_world

QUESTION = "Can you please identify the occupation that best represents the image?"
LABELS = ["doctor", "nurse", "physician assistant", "chef", "line cook", "firefighter", "pilot", "male nurse"]
LABELS += ["female doctor", "person with the image", "male chef", "female pilot", "occupation", "assistant cook"]
LABELS += ["line assistant", "female chef", "male pilot", "photo assistant", "female cook", "male line cook"]
LONGEST = 20
SHOWN = "<|vision_start|>{image}<|vision_end|>"  # marks of a Qwen; to a LLaVA two words
LLAMA = {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32}
SMOL = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9}
SMOL["num_key_value_heads"] = 3
CLIP_B = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
CLIP_L = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
QWEN = {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12}
TINY = {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 4, "num_attention_heads": 3}
_IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def llava(words: Any, tiny: bool) -> tuple[Any, Any]:
    """LLaVA-1.5-7B: 576 tokens of a picture of 336 pixels."""
    side = 56 if tiny else 336
    vision = {"model_type": "clip_vision_model", **(TINY if tiny else CLIP_L), "image_size": side, "patch_size": 14}
    text = {"model_type": "llama", **(TINY if tiny else LLAMA), "vocab_size": 32064, "max_position_embeddings": 4096}
    image = vlm_world.SPECIAL.index("<image>")
    config = t.LlavaConfig(
        vision_config=vision, text_config={**text, **_IDS}, image_token_index=image, vision_feature_layer=-2
    )
    images = t.CLIPImageProcessor(size={"shortest_edge": side}, crop_size={"height": side, "width": side})
    options = {"vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return config, t.LlavaProcessor(images, words, patch_size=14, **options)


def qwen(words: Any, tiny: bool) -> tuple[Any, Any]:
    """Qwen2-VL-2B: 256 tokens of a picture of 448 pixels."""
    text = {"model_type": "qwen2_vl_text", **(TINY if tiny else QWEN), "num_key_value_heads": 1 if tiny else 2, **_IDS}
    text |= {"vocab_size": 151936, "max_position_embeddings": 32768, "tie_word_embeddings": True}
    sections = [8, 12, 12] if tiny else [16, 24, 24]
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
    place = vlm_world.SPECIAL.index
    ids = {"image_token_id": place("<|image_pad|>"), "video_token_id": place("<|video_pad|>")}
    ids |= {"vision_start_token_id": place("<|vision_start|>"), "vision_end_token_id": place("<|vision_end|>")}
    vision = {"depth": 2, "embed_dim": 64, "num_heads": 2} if tiny else {"depth": 32, "embed_dim": 1280}
    vision["hidden_size"] = text["hidden_size"]
    config = t.Qwen2VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True, **ids, **_IDS)
    pixels = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112 if tiny else 28 * 28 * 1280}
    images, video = t.Qwen2VLImageProcessor(size=pixels), t.Qwen2VLVideoProcessor(size=pixels)
    return config, t.Qwen2VLProcessor(images, words, video)


def smolvlm(words: Any, tiny: bool) -> tuple[Any, Any]:
    """SmolVLM-256M: 64 tokens of a picture of 512 pixels, which is not cut into tiles."""
    side = 64 if tiny else 512
    vision = {**(TINY if tiny else CLIP_B), "image_size": side, "patch_size": 16}
    text = {"model_type": "llama", **(TINY if tiny else SMOL), "vocab_size": 49280, **_IDS}
    place = vlm_world.SPECIAL.index
    config = t.SmolVLMConfig(vision_config=vision, text_config=text, scale_factor=4, image_token_id=place("<image>"))
    images = t.SmolVLMImageProcessor(
        size={"longest_edge": side}, max_image_size={"longest_edge": side}, do_image_splitting=False
    )
    return config, t.Idefics3Processor(images, words, image_seq_len=(side // 64) ** 2)


MODELS = {
    "llava": ("LLaVA-1.5-7B", llava),
    "qwen2_vl": ("Qwen2-VL-2B", qwen),
    "smolvlm": ("SmolVLM-256M", smolvlm),
}


def saved(kind: str, tiny: bool, device: checkpoints.Device, folder: Path) -> tuple[VisionLanguage, Any]:
    """Random weights in a folder, as published: the library's model, in its precision, and what prepares its inputs."""
    config, processor = MODELS[kind][1](vlm_world.tokenizer(), tiny)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16 if device.is_cuda else torch.float32)
    try:
        with torch.device(device.name):
            library = t.AutoModelForImageTextToText.from_config(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)
    library.generation_config.update(do_sample=False, eos_token_id=2, pad_token_id=0)
    library.save_pretrained(folder)
    processor.save_pretrained(folder)
    prompt = LENS.format(shown=SHOWN, question=QUESTION)
    return VisionLanguage(library, processor, prompt, device, "benchmark", None), library


class Opened:
    """A folder's model as the gate opens it, once for all runs."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder, self.device = folder, device
        self.engines: dict[str, Any] = {}

    def judged(self, data: Any, asked: str) -> Any:
        """A model that has no number yet: `question` for likelihoods, `chat` for answers."""
        text = LENS.format(shown=SHOWN, question=QUESTION if asked == "prompt" else "{question}")
        uri = f"vlm:{self.folder}?{asked}={quote(text, safe='{}')}&template=none"
        model: Any = open_scorer(uri, data, device=self.device, cache=None)
        if asked not in self.engines:
            self.engines[asked] = model._load()
        model._load = lambda **_: self.engines[asked]
        return model


def joined(shown: Sequence[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Inputs of equal shapes as one batch, as processors make them of pictures of one size."""
    return {name: torch.cat([one[name] for one in shown]) for name in shown[0]}


def pairs_of(shown: dict[str, torch.Tensor], labels: Sequence[Sequence[int]]) -> list[dict[str, torch.Tensor]]:
    """A picture's inputs with every label behind them, padded on the right."""
    longest, made = max(map(len, labels)), []
    for label in labels:
        more = torch.tensor([[*label, *[0] * (longest - len(label))]], device=shown["input_ids"].device)
        there = torch.tensor([[1] * len(label) + [0] * (longest - len(label))], device=more.device)
        mask = shown.get("attention_mask", torch.ones_like(shown["input_ids"]))
        added = {"input_ids": (shown["input_ids"], more), "attention_mask": (mask, there)}
        if "mm_token_type_ids" in shown:
            added["mm_token_type_ids"] = (shown["mm_token_type_ids"], torch.zeros_like(more))
        made.append({**shown, **{name: torch.cat(parts, dim=1) for name, parts in added.items()}})
    return made


def library_likelihoods(
    model: Any, engine: VisionLanguage, blobs: Sequence[bytes], labels: Sequence[Sequence[int]], batch: int
) -> np.ndarray:
    """A forward pass over every picture and label: (pictures, labels)."""
    pictures = [engine.inputs(opened(blob)) for blob in blobs]
    rows = [pair for shown in pictures for pair in pairs_of(shown, labels)]
    wanted, longest = [label for _ in pictures for label in labels], max(map(len, labels))
    sums = []
    for start in range(0, len(rows), batch):
        inputs, some = joined(rows[start : start + batch]), wanted[start : start + batch]
        logits = model(**inputs, use_cache=False, logits_to_keep=longest + 1).logits[:, :-1].float()
        targets = inputs["input_ids"][:, -longest:, None]
        chosen = torch.log_softmax(logits, dim=-1).gather(2, targets)[:, :, 0]
        lengths = torch.tensor([len(label) for label in some], device=chosen.device)
        sums.append((chosen * (torch.arange(longest, device=chosen.device) < lengths[:, None])).sum(dim=1))
    return torch.cat(sums).reshape(len(pictures), -1).double().cpu().numpy()


def opened(blob: bytes) -> Image.Image:
    """A decoded picture."""
    return Image.open(io.BytesIO(blob)).convert("RGB")


def library_answers(model: Any, engine: VisionLanguage, blobs: Sequence[bytes], batch: int) -> list[str]:
    """`generate` in batches, as the library's guides write it."""
    said, text = [], engine.prompt.replace("{image}", engine.processor.image_token)
    for start in range(0, len(blobs), batch):
        images = [opened(blob) for blob in blobs[start : start + batch]]
        made = engine.processor(images=images, text=[text] * len(images), padding=True, return_tensors="pt")
        inputs = made.to(model.device, model.dtype)
        ids = model.generate(**inputs, do_sample=False, max_new_tokens=LONGEST)[:, inputs["input_ids"].shape[1] :]
        said += engine.processor.batch_decode(ids, skip_special_tokens=True)
    return said


def answers_alone(model: Any, batches: Sequence[dict[str, torch.Tensor]]) -> torch.Tensor:
    """`generate` on batches that are on the GPU."""
    made = [model.generate(**inputs, do_sample=False, max_new_tokens=LONGEST) for inputs in batches]
    return torch.cat([ids[:, -LONGEST:] for ids in made]).cpu()


def seconds(run: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, Any]:
    """Time of a call whose result is in memory, and the result."""
    started = clock()
    result = run()
    return clock() - started, result


def processor_time() -> float:
    """Seconds of this process and of those that it started."""
    whole = psutil.Process()
    times = [each.cpu_times() for each in (whole, *whole.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def measured(
    ways: dict[str, tuple[int, Callable[[int], Any]]], repeats: int, clock: Callable[[], float]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Pictures a second of each way, in turn, and what it gives; `ways` have how many pictures they are timed with."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    results: dict[str, Any] = {}
    for repeat in range(repeats + 1):
        for name, (pictures, run) in list(ways.items()):
            try:
                taken, results[name] = seconds(lambda run=run, pictures=pictures: run(pictures), clock)
            except torch.OutOfMemoryError:
                ways.pop(name)
                rates.pop(name)
                torch.cuda.empty_cache()
                continue
            if repeat:
                rates[name].append(pictures / taken)
    return {name: statistics.median(rate) for name, rate in rates.items()}, results


def measure(kind: str, data: Dataset, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Both tasks of one model."""
    device = checkpoints.find_device(options.device)
    device = replace(device, precision="bf16" if device.precision == "amp_bf16" else device.precision)
    engine, library = saved(kind, options.tiny, device, folder)
    opened_once = Opened(folder, device.name)
    blobs = [blob for _, batch in data.image_batches(64) for blob in batch]
    tokens = engine.tokens(LABELS)
    started = time.perf_counter()
    shown = [engine.inputs(opened(blob)) for blob in blobs]
    preparing = len(shown) / (time.perf_counter() - started)

    def gate(pictures: int, asked: str) -> Any:
        return opened_once.judged(Some(data, pictures), asked)

    every, few = len(shown), max(1, len(shown) // 8)
    ways: dict[str, tuple[int, Callable[[int], Any]]] = {
        "labels: fairgate": (every, lambda n: gate(n, "prompt").log_likelihoods(LABELS)),
        "answers: fairgate": (every, lambda n: gate(n, "chat").answer([QUESTION] * n, LONGEST)),
    }
    for size in options.batches:
        ways[f"labels: library, {4 * size} pairs"] = (
            few,
            lambda n, size=size: library_likelihoods(library, engine, blobs[:n], tokens, 4 * size),
        )
        ways[f"answers: library, {size} pictures"] = (
            every,
            lambda n, size=size: library_answers(library, engine, blobs[:n], size),
        )
        batches = [joined(shown[start : start + size]) for start in range(0, every, size)]
        ways[f"model alone: {size} pictures"] = (
            every,
            lambda _, batches=batches: answers_alone(library, batches),
        )
    with torch.inference_mode():
        clock = time.perf_counter if device.is_cuda else processor_time
        rates, results = measured(ways, options.repeats, clock)
    labels = [name for name in results if name.startswith("labels: library")]
    apart = (
        np.abs(results["labels: fairgate"][: len(results[labels[0]])] - results[labels[0]]) if labels else np.zeros(1)
    )
    best = {
        task: max((rate for name, rate in rates.items() if name.startswith(f"{task}: library")), default=float("nan"))
        for task in ("labels", "answers")
    }
    return {
        "model": MODELS[kind][0],
        "prefix": shown[0]["input_ids"].shape[1],
        "labels": [min(map(len, tokens)), max(map(len, tokens))],
        "ratio": {task: rates[f"{task}: fairgate"] / best[task] for task in best},
        "rates": rates,
        "preparing alone": preparing,
        "apart": {"median": float(np.median(apart)), "most": float(apart.max())},
        "GiB": torch.cuda.max_memory_allocated() / 2**30 if device.is_cuda else None,
    }


class Some:
    """The first images of a release."""

    def __init__(self, data: Dataset, images: int) -> None:
        self.data, self.images = data, images
        self.fingerprint, self.folder, self.index = data.fingerprint, data.folder, data.index

    def __len__(self) -> int:
        return self.images

    def image_batches(self, batch_size: int) -> Any:
        """As the release's, up to the last one."""
        for rows, blobs in self.data.image_batches(batch_size):
            if rows[0] < self.images:
                yield rows[: self.images - rows[0]], blobs[: self.images - rows[0]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; `--out` writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small models on the CPU")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--pictures", type=int, default=128)
    parser.add_argument("--batches", type=int, nargs="*", default=[8, 16, 32])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    if options.tiny:
        options.device, options.pictures, options.batches = "cpu", 128, [8, 16, 32]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        KINDS["448 px"] = (448, 448)
        _, release = photographs(Path(folder), "448 px", options.pictures)
        for kind in options.models:
            rows.append(measure(kind, read_dataset(release), Path(folder, kind), options))
            print(json.dumps(rows[-1], indent=1), flush=True)
            if options.out:
                options.out.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
    return 0


if __name__ == "__main__":
    sys.exit(main())
