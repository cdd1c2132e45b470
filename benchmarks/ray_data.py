"""Do our own actors of Ray, or Ray Data, embed images with less? In turn, in one Ray of this machine.

    python -m benchmarks.ray_data [--images 128] [--workers 2] [--turns 1] [--kill]

ViT-B-32 with random weights on one thread a worker, on synthetic photographs of 224 pixels as JPEGs. Both have actors
that open the model once and take 32 images at a time. Ray Data reads the Parquet files of JPEGs, as its users do; an
actor of fairgate reads its own. A run includes the start of its actors. Prints for each run its wall time, the
processor time and memory of all processes of this Ray (sampled, so that a little is missed), and at the end whether
all embeddings are equal. `--kill` ends an actor of every run while it works.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import psutil  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import torch
from numpy.typing import NDArray
from PIL import Image

from benchmarks._photographs import KINDS, photograph
from fairgate.engines import Task
from fairgate.engines.ray_engine import RayEngine

BATCH, FILE = 32, 64
OPENED = 8.0
"""Processor seconds after which an actor is sure to have opened the model: it is killed then."""
Embeddings = NDArray[np.float32]


class Embedder:
    """What an actor does in either: open the model, embed some JPEGs."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model, _, self.prepare = open_clip.create_model_and_transforms("ViT-B-32")
        self.model.eval()

    def embed(self, jpegs: list[bytes]) -> Embeddings:
        """Embeddings (images, 512)."""
        with torch.inference_mode():
            pictures = torch.stack([self.prepare(Image.open(io.BytesIO(jpeg)).convert("RGB")) for jpeg in jpegs])
            return np.asarray(self.model.encode_image(pictures), dtype=np.float32)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """As Ray Data calls it."""
        return {"row": batch["row"], "embedding": self.embed(list(batch["jpeg"]))}


def by_engine(folder: Path, images: int, workers: int) -> Embeddings:
    """By fairgate's engine."""
    results = dict[int, Embeddings]()

    def bench(device: str, last: Any) -> Callable[[int], Embeddings]:  # noqa: ARG001 - an engine passes them
        embedder = Embedder()

        def work(start: int) -> Embeddings:
            file = pq.ParquetFile(folder / f"{start // FILE}.parquet")
            return embedder.embed(file.read_row_group(start % FILE // BATCH)["jpeg"].to_pylist())

        return work

    def done(task: Task, result: Embeddings) -> bool:
        results[task.index] = result
        return True

    tasks = (Task(start, start, bench) for start in range(0, images, BATCH))
    RayEngine(workers=workers, device="cpu").run(partial(next, tasks, None), done)
    return np.concatenate([results[start] for start in sorted(results)])


def by_ray_data(folder: Path, images: int, workers: int) -> Embeddings:
    """By Ray Data."""
    pool = ray.data.ActorPoolStrategy(size=workers)
    table = ray.data.read_parquet(str(folder)).map_batches(Embedder, batch_size=BATCH, compute=pool)
    embeddings = np.empty((images, 512), dtype=np.float32)
    for batch in table.iter_batches():
        embeddings[batch["row"]] = batch["embedding"]
    return embeddings


class Watch(threading.Thread):
    """Processor seconds of all processes below this one, and the most MB that they had for themselves."""

    def __init__(self, kill: bool) -> None:
        super().__init__(daemon=True)
        self.seconds, self.peak, self._kill, self.over = dict[int, float](), 0, kill, threading.Event()

    def run(self) -> None:
        """Look twice a second."""
        while not self.over.wait(0.5):
            memory = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    used = process.cpu_times()
                    self.seconds[process.pid] = used.user + used.system
                    memory += process.memory_full_info().uss
                    works = "Worker" in process.cmdline()[0] and used.user > OPENED
                except (psutil.Error, IndexError):  # it has ended
                    continue
                if self._kill and works:
                    process.kill()
                    self._kill = False
            self.peak = max(self.peak, memory >> 20)


def main() -> None:
    """Print what each run took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # a busy machine needs more than Ray's 30
    more = {"object_store_memory": 300 << 20, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init("local", num_cpus=options.workers + 1, include_dashboard=False, **more)
    last = list[Embeddings]()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for start in range(0, options.images, FILE):
            rows = range(start, min(start + FILE, options.images))
            part = {"row": rows, "jpeg": [photograph(row, KINDS["224 px"]) for row in rows]}
            pq.write_table(pa.table(part), folder / f"{start // FILE}.parquet", row_group_size=BATCH)
        for name, run in [("fairgate", by_engine), ("Ray Data", by_ray_data)] * options.turns:
            watch, started, own = Watch(options.kill), time.perf_counter(), time.process_time()
            before = {child.pid: sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True)}
            watch.start()
            last.append(run(folder, options.images, options.workers))
            wall, own = time.perf_counter() - started, time.process_time() - own
            watch.over.set()
            watch.join()
            used = own + sum(seconds - before.get(pid, 0.0) for pid, seconds in watch.seconds.items())
            print(f"{name:<9} {wall:6.1f} s, {used:6.1f} s of processors, {watch.peak:,} MB", flush=True)
    print(f"equal: {all(np.array_equal(last[0], each) for each in last)}")


if __name__ == "__main__":
    main()
