"""Images per second on a GPU: fairgate's painter beside diffusers' stock pipelines, and the share of the GPU's peak.

    python -m benchmarks.gpu_generation --peak 989 --out gpu.md

Random weights at the sizes of SD 1.5 (512 px) and SDXL (1024 px), saved as diffusers saves them and loaded by both:
what a picture shows does not change what it costs. The stock pipeline runs in the same precision, with the same
prompts, seeds, steps, guidance and batch; its VAE is in that precision too, where fairgate's is in float32. Each is
timed `--repeats` times in turn after one round that is not counted; the median is shown. Share of peak: operations of
the UNet alone (counted by torch on the UNet that runs, a multiplication and an addition being two) for the evaluations
of the whole run, over its seconds and over `--peak`, the dense TFLOP/s that the GPU's maker gives for the precision.

`--tiny` runs the same on a CPU with tiny models, in seconds of processor time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks._random_diffusion import KINDS, Kind, save_random
from fairgate.models.generation import Painter, Sampling, open_model

PROMPT = "a photo of a doctor"


@dataclass(frozen=True)
class Row:
    """One way to paint one batch. Rates are per second of wall time; memory is the most that torch held."""

    kind: str
    batch: int
    who: str
    seconds: float
    images_per_second: float
    unet_tflops: float
    share_of_peak: float | None
    gib: float | None


def flops_per_evaluation(unet: Any, kind: Kind) -> float:
    """TFLOP of one UNet evaluation of one image, counted without computing it."""
    with torch.device("meta"):
        twin = type(unet).from_config(unet.config)
        latents = torch.empty(1, 4, kind.pixels // kind.vae_factor, kind.pixels // kind.vae_factor)
        told = {"encoder_hidden_states": torch.empty(1, 77, unet.config.cross_attention_dim)}
        more = {"text_embeds": torch.empty(1, kind.pooled), "time_ids": torch.empty(1, 6)} if kind.pooled else None
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            twin(latents, torch.zeros(1), added_cond_kwargs=more, **told)
    return counter.get_total_flops() / 1e12


def seconds_of(run: Callable[[], Any], device: str) -> float:
    """Wall time of a call, whatever it left running on the GPU included; on a CPU, processor time."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    _wait(device)
    started = clock()
    run()
    _wait(device)
    return clock() - started


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def stock_pipeline(folder: Path, device: str, dtype: torch.dtype) -> Any:
    """diffusers' own pipeline on the same folder."""
    diffusers.utils.logging.set_verbosity_error()
    pipeline = diffusers.DiffusionPipeline.from_pretrained(folder, dtype=dtype, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)


def measure(kind: Kind, folder: Path, arguments: argparse.Namespace) -> list[Row]:
    """Both painters on one model, at every batch size."""
    painter = open_model("painter", f"hf:{folder}", device=arguments.device)
    stock = stock_pipeline(folder, arguments.device, painter.model.dtype)
    operations = flops_per_evaluation(painter.model.unet, kind)
    print(f"{kind.name}: {operations:.5f} TFLOP per UNet evaluation of an image {kind.published}")
    rows = []
    for batch in arguments.batches:
        how = Sampling(steps=arguments.steps or kind.steps, guidance=kind.guidance)
        evaluations = 2 * batch * len(painter.model.scheduler(how.steps).timesteps)
        for who, (seconds, gib) in timed(ways(painter, stock, batch, how), arguments).items():
            rate = operations * evaluations / seconds
            share = rate / arguments.peak if arguments.peak else None
            rows.append(Row(kind.name, batch, who, seconds, batch / seconds, rate, share, gib))
    return rows


def ways(painter: Painter, stock: Any, batch: int, how: Sampling) -> dict[str, Callable[[], Any]]:
    """The same pictures, made by each."""
    return {
        "fairgate": lambda: painter.paint([PROMPT] * batch, range(batch), how),
        "diffusers": lambda: stock(
            prompt=[PROMPT] * batch,
            num_inference_steps=how.steps,
            guidance_scale=how.guidance,
            generator=[torch.Generator().manual_seed(seed) for seed in range(batch)],
        ),
    }


def timed(runs: dict[str, Callable[[], Any]], arguments: argparse.Namespace) -> dict[str, tuple[float, float | None]]:
    """Median seconds of each and GiB of GPU memory, in turn; the first round is not counted."""
    on_gpu = arguments.device != "cpu"
    times: dict[str, list[float]] = {name: [] for name in runs}
    memory: dict[str, float | None] = dict.fromkeys(runs)
    for repeat in range(arguments.repeats + 1):
        for name, run in runs.items():
            if on_gpu:
                torch.cuda.reset_peak_memory_stats()
            seconds = seconds_of(run, arguments.device)
            if repeat:
                times[name].append(seconds)
            if on_gpu:
                memory[name] = torch.cuda.max_memory_allocated() / 2**30
    return {name: (statistics.median(times[name]), memory[name]) for name in runs}


def page(rows: list[Row], arguments: argparse.Namespace) -> str:
    """A table in Markdown."""
    where = "CPU" if arguments.device == "cpu" else torch.cuda.get_device_name()
    lines = [
        f"{where}, torch {torch.__version__}, CUDA {torch.version.cuda}; both models were in memory throughout.\n",
        "| model | batch | | s | images/s | UNet TFLOP/s | of peak | GiB |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        share = "" if row.share_of_peak is None else f"{row.share_of_peak:.1%}"
        memory = "" if row.gib is None else f"{row.gib:.1f}"
        lines.append(
            f"| {row.kind} | {row.batch} | {row.who} | {row.seconds:.3f} | {row.images_per_second:.3f} "
            f"| {row.unet_tflops:.3f} | {share} | {memory} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print; `--out` writes the table, and the rows beside it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--steps", type=int, help="default: 50 for SD 1.5, 40 for SDXL")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peak", type=float, help="dense TFLOP/s of the GPU in the precision that is run")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.device, arguments.batches, arguments.steps = "cpu", [8], 20
    elif not torch.cuda.is_available():
        parser.error("there is no GPU here; --tiny runs tiny models on a CPU")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)  # diffusers 0.42, of numpy 2
        for kind in KINDS["tiny" if arguments.tiny else "full"]:
            save_random(kind, Path(folder, kind.name), arguments.device)
            rows += measure(kind, Path(folder, kind.name), arguments)
            if arguments.device != "cpu":
                torch.cuda.empty_cache()
    print(page(rows, arguments))
    if arguments.out:
        arguments.out.write_text(page(rows, arguments))
        arguments.out.with_suffix(".json").write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
