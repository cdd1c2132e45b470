"""Lightning: `Trainer(callbacks=[LightningFairness("occupations", save=save, every_epochs=1)])`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairgate.interfaces.integrations.while_training import OnFailure, TrainingJudge, due

if TYPE_CHECKING:

    class Callback:
        """What mypy knows of Lightning, which is no dependency."""

else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback


class LightningFairness(Callback):
    """Judges the module every so many steps, or epochs, and logs to the trainer's loggers.

    `save` gets the module and an empty folder, writes the model there and returns its URI: a module can hold any model.
    The numbers are also in `trainer.callback_metrics`, where an early stop or a checkpoint callback finds them by name.
    `options` are TrainingJudge's. Of several processes the first judges.
    """

    def __init__(
        self,
        suite: str,
        save: Callable[[Any, Path], str],
        *,
        every_steps: int = 0,
        every_epochs: int = 0,
        on_failure: OnFailure = "warn",
        **options: Any,
    ) -> None:
        self.save, self.every_steps, self.every_epochs = save, every_steps, every_epochs
        self.judge = TrainingJudge(suite, on_failure=on_failure, **options)
        self._judged_at = 0

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse a wrong suite before the first step."""
        self.judge.start()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Judge every so many optimizer steps; with accumulated gradients, several batches are one step."""
        if due(self.every_steps, trainer.global_step) and trainer.global_step != self._judged_at:
            self._judge(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Judge every so many epochs."""
        if due(self.every_epochs, trainer.current_epoch + 1):
            self._judge(trainer, pl_module)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Forget the embeddings."""
        self.judge.close()

    def _judge(self, trainer: Any, pl_module: Any) -> None:
        import torch

        self._judged_at = trainer.global_step
        if not trainer.is_global_zero:
            return
        judged = self.judge.judge(lambda folder: self.save(pl_module, folder), trainer.global_step)
        for logger in trainer.loggers:  # at once: `log_dict` waits for a step that is a multiple of log_every_n_steps
            logger.log_metrics(judged.metrics, step=trainer.global_step)
        trainer.callback_metrics.update({name: torch.tensor(value) for name, value in judged.metrics.items()})
        trainer.should_stop = trainer.should_stop or self.judge.stops
