"""Training loops of open_clip: `fairness = OpenClipFairness("occupations", like="ViT-B-32")`, called in the loop."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from fairgate.interfaces.integrations.while_training import Judged, OnFailure, TrainingJudge


class OpenClipFairness:
    """Judges a model of open_clip whenever it is called.

    `like` is the name of its architecture, or a folder with `open_clip_config.json` and the tokenizer's files, of which
    everything but weights is copied. `writer` is a TensorBoard writer, such as open_clip_train's. `options` are
    TrainingJudge's. Call `close` at the end.
    """

    def __init__(
        self, suite: str, like: str | Path, *, writer: Any = None, on_failure: OnFailure = "warn", **options: Any
    ) -> None:
        self.like, self.writer = like, writer
        self.judge = TrainingJudge(suite, on_failure=on_failure, **options)
        self.judge.start()

    def __call__(self, model: Any, step: int) -> Judged:
        """Judge the model as it is now; `stops` says after it whether to leave the loop."""
        judged = self.judge.judge(lambda folder: self._saved(model, folder), step)
        if self.writer is not None:
            for name, value in judged.metrics.items():
                self.writer.add_scalar(name, value, step)
        return judged

    @property
    def stops(self) -> bool:
        """Whether the training is to end now."""
        return self.judge.stops

    def close(self) -> None:
        """Forget the embeddings."""
        self.judge.close()

    def _saved(self, model: Any, folder: Path) -> str:
        from safetensors.torch import save_file

        for wrapped in ("module", "_orig_mod"):  # of DistributedDataParallel, of torch.compile
            model = getattr(model, wrapped, model)
        tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in model.state_dict().items()}
        like = Path(self.like)
        if not (like / "open_clip_config.json").is_file():
            save_file(tensors, folder / "weights.safetensors")
            return f"open_clip:{self.like}@{folder / 'weights.safetensors'}"
        for path in like.iterdir():
            if path.is_file() and path.suffix in (".json", ".txt", ".model"):
                shutil.copyfile(path, folder / path.name)
        save_file(tensors, folder / "open_clip_model.safetensors")
        return f"open_clip:local-dir:{folder}"
