"""From image files to embeddings: the share of the bare forward pass that is reached, by fairgate and by a DataLoader,
and the limits that arithmetic, decoding and bytes set.

    python -m benchmarks.embedding --out embedding.json    # on the GPU where there is one, else on the CPU

ViT-B-32 with random weights, of open_clip and of transformers, on synthetic photographs of 224 pixels and of 12
megapixels. Everything is timed in turn, after a round that is not counted; medians. "forward" has its batches on the
device already. "decode" is what all cores prepare up to 8-bit levels, in processes that hand nothing over. What both
together allow is the limit: their smaller rate on a GPU, and on a CPU, where they share the cores, the rate of one
after the other. A large matrix product at the same precision says how near the forward pass is to the processor's
arithmetic. fairgate and the DataLoader include the start of their workers; "steady" is fairgate's rate after the
first quarter. `--processor-time`, on a CPU that others use too, counts the seconds of this process and of its workers
instead: one process decodes then, and what waits costs nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import torch
from PIL import Image
from safetensors.torch import save_file
from tokenizers import Tokenizer, models
from torch.utils.flop_counter import FlopCounterMode
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, PreTrainedTokenizerFast

from benchmarks._machine import facts
from benchmarks._photographs import KINDS, photographs
from fairgate.data import Dataset, read_dataset
from fairgate.models import open_scorer
from fairgate.models.checkpoints import Device, Encoder, find_device, scoring, unit_or_error
from fairgate.models.contract import Request
from fairgate.models.embeddings import BATCH_CPU, BATCH_CUDA, numbers_of_images

TABLE = (
    "| device | library | photographs | fairgate / forward | DataLoader / forward | fairgate / limit | steady / limit "
    "| forward / product | forward, images/s | decode | fairgate | steady | DataLoader | GFLOP an image "
    "| product, GFLOP/s | file kB | moved kB |",
    "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
)


@dataclass(frozen=True)
class Row:
    """One kind of photographs with one library. Rates are images a second, `product` is of a matrix product; shares are
    of the bare forward pass; `moved_kb` is what reaches the model's device of an image."""

    device: str
    precision: str
    library: str
    photographs: str
    images: int
    fairgate_share: float
    dataloader_share: float
    fairgate_of_limit: float
    steady_of_limit: float
    forward_of_product: float
    gflop: float
    file_kb: float
    moved_kb: float
    forward: float
    decode: float
    fairgate: float
    steady: float
    dataloader: float
    product: float


@dataclass(frozen=True)
class Loaded:
    """A model as fairgate loaded it, and as its library has it: the image tower, and how a picture is prepared."""

    encoder: Encoder
    tower: Callable[[torch.Tensor], torch.Tensor]
    prepare: Callable[[Any], torch.Tensor]


def open_clip_model(folder: Path, data: Dataset, device: Device) -> Loaded:
    """ViT-B-32 of open_clip."""
    torch.manual_seed(0)
    model = open_clip.model.CLIP(**open_clip.get_model_config("ViT-B-32")).eval()
    save_file(model.state_dict(), folder / "random.safetensors")
    scorer: Any = open_scorer("open_clip:ViT-B-32@./random.safetensors", data, device=device.name, base=folder)
    return Loaded(scorer.loaded(), model.to(device.name).encode_image, open_clip.image_transform(224, is_train=False))


def transformers_model(folder: Path, data: Dataset, device: Device) -> Loaded:
    """The same architecture of transformers, with a tokenizer of three words: no text is embedded."""
    torch.manual_seed(0)
    model, processor = CLIPModel(CLIPConfig()).eval(), CLIPImageProcessor()
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1, "[EOS]": 2}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]", eos_token="[EOS]")
    for part in (model, processor, tokenizer):
        part.save_pretrained(folder / "transformers")
    scorer: Any = open_scorer("hf:transformers", data, device=device.name, base=folder)

    def tower(pixels: torch.Tensor) -> torch.Tensor:
        features = model.get_image_features(pixel_values=pixels)
        return getattr(features, "pooler_output", features)

    model.to(device.name)
    return Loaded(scorer.loaded(), tower, lambda image: processor(images=image, return_tensors="pt")["pixel_values"][0])


MODELS = {"open_clip": open_clip_model, "transformers": transformers_model}


class Files(torch.utils.data.Dataset[torch.Tensor]):
    """Image files, prepared: what a plain loop over a DataLoader reads."""

    def __init__(self, files: Sequence[Path], prepare: Callable[[Any], torch.Tensor]) -> None:
        self.files, self.prepare = files, prepare

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, place: int) -> torch.Tensor:
        with Image.open(self.files[place]) as image:
            return self.prepare(image.convert("RGB"))


def by_dataloader(loaded: Loaded, files: Sequence[Path], device: Device, batch: int) -> None:
    """A worker for each core, pinned memory, copies that nothing waits for, the results fetched at the end."""
    workers = os.cpu_count() or 1
    batch = max(1, min(batch, 256, len(files) // workers))  # float32 in shared memory: 5 GB for 16 workers
    loader = torch.utils.data.DataLoader(
        Files(files, loaded.prepare), batch, num_workers=workers, pin_memory=device.is_cuda
    )
    with scoring(device):
        torch.cat([loaded.tower(pixels.to(device.name, non_blocking=True)) for pixels in loader]).float().cpu()


def by_fairgate(loaded: Loaded, data: Dataset, device: Device, steady: list[float]) -> None:
    """What a run of the gate calls, without a cache; adds the rate after the first quarter to `steady`."""
    at = list[tuple[int, float]]()
    request = Request("", "", data, device.name, progress=lambda done, _: at.append((done, time.perf_counter())))
    numbers_of_images(
        lambda: (loaded.encoder.prepare, loaded.encoder.encode_images), unit_or_error, request, device, ""
    )
    (done, then), (every, now) = next(mark for mark in at if mark[0] >= len(data) / 4), at[-1]
    steady.append((every - done) / (now - then) if now > then else float("nan"))


_LEVELS: list[Callable[[Any], Any]] = []  # as forked processes see it


def _decoded(files: Sequence[Path]) -> None:
    for file in files:
        with Image.open(file) as image:
            _LEVELS[-1](image.convert("RGB"))


def decoding_cores(loaded: Loaded) -> ProcessPoolExecutor:
    """A process for each core, started."""
    _LEVELS.append(getattr(loaded.encoder.prepare, "levels", loaded.encoder.prepare))
    cores = os.cpu_count() or 1
    pool = ProcessPoolExecutor(cores, multiprocessing.get_context("fork"), torch.set_num_threads, (1,))
    list(pool.map(_decoded, [[]] * cores))
    return pool


def decoded_only(pool: ProcessPoolExecutor, files: Sequence[Path]) -> None:
    """What the cores can decode."""
    step = max(1, min(32, len(files) // (4 * (os.cpu_count() or 1))))
    list(pool.map(_decoded, [files[start : start + step] for start in range(0, len(files), step)]))


def forward_only(loaded: Loaded, batches: Sequence[torch.Tensor], device: Device, times: int) -> None:
    """The image tower, on batches that are on the device."""
    with scoring(device):
        for place in range(times):
            features = loaded.tower(batches[place % len(batches)])
        features.float().cpu()


def product_only(factors: Sequence[torch.Tensor], device: Device) -> None:
    """The product of two square matrices on the device."""
    with scoring(device):
        (factors[0] @ factors[1])[0, 0].item()


def sizes(loaded: Loaded, files: Sequence[Path], device: Device) -> dict[str, float]:
    """Of an image: the arithmetic of its forward pass, and kilobytes of its file and of what reaches the device."""
    with FlopCounterMode(display=False) as counter:  # gradients kept: without them a fused layer hides its products
        loaded.tower(torch.zeros(1, 3, 224, 224, device=device.name))
    levels = getattr(loaded.encoder.prepare, "levels", loaded.encoder.prepare)
    with Image.open(files[0]) as image:
        moved = np.asarray(levels(image.convert("RGB"))).nbytes
    file_kb = statistics.mean(file.stat().st_size for file in files) / 1e3
    return {"gflop": counter.get_total_flops() / 1e9, "file_kb": file_kb, "moved_kb": moved / 1e3}


def processor_time() -> float:
    """Seconds of this process, and of those that it started and that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def seconds(run: Callable[[], None], clock: Callable[[], float]) -> float:
    """Time of a run; every way ends with its results in memory."""
    started = clock()
    run()
    return clock() - started


@dataclass(frozen=True)
class Way:
    """How many images a way takes, or GFLOPs, the way, and what of it is run first, uncounted."""

    images: float
    run: Callable[[], None]
    first: Callable[[], None]


def ways(
    loaded: Loaded,
    files: Sequence[Path],
    data: Dataset,
    device: Device,
    pool: ProcessPoolExecutor,
    steady: list[float],
) -> dict[str, Way]:
    """What is timed; `steady` gets fairgate's rates after the first quarter."""
    batch = BATCH_CUDA if device.is_cuda else BATCH_CPU
    batches = list(torch.randn(4, batch, 3, 224, 224, device=device.name))
    times = 40 if device.is_cuda else max(1, min(len(files) // batch, 4))
    some = files[: max(1, len(files) // 8)]
    forward = partial(forward_only, loaded, batches, device)
    side = 16_384 if device.is_cuda else 2_048
    product = partial(product_only, list(torch.randn(2, side, side, device=device.name)), device)
    return {
        "product": Way(2 * side**3 / 1e9, product, product),
        "forward": Way(times * batch, partial(forward, times), partial(forward, 1)),
        "decode": Way(len(files), partial(decoded_only, pool, files), partial(decoded_only, pool, some)),
        "fairgate": Way(len(files), partial(by_fairgate, loaded, data, device, steady), partial(forward, 1)),
        "dataloader": Way(
            len(files),
            partial(by_dataloader, loaded, files, device, batch),
            partial(by_dataloader, loaded, some, device, batch),
        ),
    }


def rates(runs: dict[str, Way], repeats: int, clock: Callable[[], float]) -> dict[str, float]:
    """Images a second of each way, all in turn: medians."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for way in runs.values():
        way.first()
    for _ in range(repeats):
        for name, way in runs.items():
            taken[name].append(seconds(way.run, clock))
    return {name: way.images / statistics.median(taken[name]) for name, way in runs.items()}


def row_of(named: Sequence[str], device: Device, images: int, rate: dict[str, float], size: dict[str, float]) -> Row:
    """The shares."""
    one, other = rate["forward"], rate["decode"]
    limit = min(one, other) if device.is_cuda else 1 / (1 / one + 1 / other)
    shares = (rate["fairgate"] / one, rate["dataloader"] / one, rate["fairgate"] / limit, rate["steady"] / limit)
    of_product = one * size["gflop"] / rate["product"]
    return Row(device.name, device.precision, named[0], named[1], images, *shares, of_product, **size, **rate)


def line_of(row: Row) -> str:
    """One line of the table."""
    shares = f"{row.fairgate_share:.3f} | {row.dataloader_share:.3f} | {row.fairgate_of_limit:.3f}"
    shares += f" | {row.steady_of_limit:.3f} | {row.forward_of_product:.3f}"
    rate = f"{row.forward:,.1f} | {row.decode:,.1f} | {row.fairgate:,.1f} | {row.steady:,.1f} | {row.dataloader:,.1f}"
    rate += f" | {row.gflop:.2f} | {row.product:,.0f} | {row.file_kb:,.0f} | {row.moved_kb:,.0f}"
    return f"| {row.device} {row.precision} | {row.library} | {row.photographs} | {shares} | {rate} |"


def machine() -> dict[str, object]:
    """What the numbers are of."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {**facts("torch", "pillow"), "gpu": gpu}


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precisions", nargs="+", help="fp32, amp_fp16, amp_bf16; default: what fairgate takes there")
    parser.add_argument("--libraries", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--images", type=int, nargs=2, default=(256, 32), metavar=("SMALL", "LARGE"), help="0: none")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--out", type=Path)
    typed = parser.parse_args()
    found, rows = find_device(typed.device), list[Row]()
    print(machine(), *TABLE, sep="\n")
    for kind, images in zip(KINDS, typed.images, strict=True):
        if not images:
            continue
        with tempfile.TemporaryDirectory() as folder:
            files, release = photographs(Path(folder), kind, images)
            data = read_dataset(release)
            for library in typed.libraries:
                loaded = MODELS[library](Path(folder), data, found)
                pool = decoding_cores(loaded)
                for precision in typed.precisions or [found.precision]:
                    device = replace(found, precision=precision)
                    steady = list[float]()
                    runs = ways(loaded, files, data, device, pool, steady)
                    if typed.processor_time:
                        runs["decode"] = replace(runs["decode"], run=partial(_decoded, files))
                    rate = rates(runs, typed.repeats, processor_time if typed.processor_time else time.perf_counter)
                    rate["steady"] = float("nan") if typed.processor_time else statistics.median(steady)
                    rows.append(row_of((library, kind), device, images, rate, sizes(loaded, files, device)))
                    print(line_of(rows[-1]), flush=True)
                    if typed.out:
                        said = {"machine": machine(), "rows": [asdict(row) for row in rows]}
                        typed.out.write_text(json.dumps(said, indent=1))
                pool.shutdown()


if __name__ == "__main__":
    main()
