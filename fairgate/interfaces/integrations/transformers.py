"""The Trainer of transformers: `TrainerFairness(trainer, suite="occupations", every_steps=500)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from fairgate.data import shadowed_library
from fairgate.interfaces.integrations.while_training import LOG, OnFailure, Save, TrainingJudge, due
from fairgate.models.checkpoints import home_of


class TrainerFairness(TrainerCallback):  # type: ignore[misc] # mypy does not follow transformers
    """Judges the model every so many steps, or epochs, and logs through `trainer.log`, so that every reporter gets it.

    The model is saved with the trainer's `processing_class` and `processor`, and judged as `SCHEME:FOLDER`: by the
    family that the folder's config.json names, unless `scheme` names one. `save` replaces all that: it gets the folder
    and returns the URI. `options` are TrainingJudge's. Adds itself to the trainer. Of several processes the first
    judges, while the others wait at their next collective call.
    """

    def __init__(
        self,
        trainer: Any,
        suite: str,
        *,
        every_steps: int = 0,
        every_epochs: int = 0,
        scheme: str | None = None,
        processor: Any = None,
        save: Save | None = None,
        on_failure: OnFailure = "warn",
        **options: Any,
    ) -> None:
        self.trainer, self.scheme, self.processor, self.save = trainer, scheme, processor, save
        self.every_steps, self.every_epochs = every_steps, every_epochs
        self.judge = TrainingJudge(suite, on_failure=on_failure, **options)
        if (shadowed := shadowed_library(Path(self.judge.root))) is not None:  # before `train()` breaks off by it
            LOG.warning("%s Install it, or train outside of the repository.", shadowed)
        trainer.add_callback(self)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Refuse a wrong suite before the first step."""
        self.judge.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Judge every so many optimizer steps."""
        if due(self.every_steps, state.global_step):
            self._judge(state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Judge every so many epochs."""
        if due(self.every_epochs, round(state.epoch or 0)):
            self._judge(state, control)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Forget the embeddings."""
        self.judge.close()

    def _judge(self, state: Any, control: Any) -> None:
        if not state.is_world_process_zero:
            return
        judged = self.judge.judge(self.save or self._saved, state.global_step)
        if judged.metrics:
            self.trainer.log(dict(judged.metrics))
        control.should_training_stop = control.should_training_stop or self.judge.stops

    def _saved(self, folder: Path) -> str:
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        model.save_pretrained(folder)
        for processor in (self.trainer.processing_class, self.processor):
            if processor is not None:
                processor.save_pretrained(folder)
        home = home_of(folder)
        return f"{self.scheme or (home.scheme if home else 'hf')}:{folder}"
