"""Schedulers by short name, and one batch's way through a schedule: which steps, what noise, in which order."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers.utils import logging as diffusers_logging
from transformers.utils import logging as transformers_logging

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.models.checkpoints import read_config, silenced

SCHEDULERS = {
    "ddim": "DDIMScheduler",
    "ddpm": "DDPMScheduler",
    "pndm": "PNDMScheduler",
    "euler": "EulerDiscreteScheduler",
    "euler_ancestral": "EulerAncestralDiscreteScheduler",
    "heun": "HeunDiscreteScheduler",
    "dpm++": "DPMSolverMultistepScheduler",
    "unipc": "UniPCMultistepScheduler",
}
"""Short names of diffusers' schedulers, for `Sampling.scheduler`."""

_CORRECTED = {"steps_offset": 1, "clip_sample": False}


class Schedulers:
    """A pipeline's scheduler: its class and its config, from which any other scheduler of diffusers can be built.

    `classic` pipelines (SD 1.x, 2.x) have two outdated settings corrected, as diffusers does: it corrects the scheduler
    that a pipeline is given, what its class sets by default included. A scheduler of another class that is built from
    its config takes over the settings that the file has, and no default.
    """

    def __init__(self, folder: Path, name: str, classic: bool) -> None:
        path = folder / "scheduler_config.json"
        self._where, self._corrected = str(path), _CORRECTED if classic else {}
        self._config = {key: value for key, value in read_config(path).items() if key != "_class_name"}
        self._config |= {key: value for key, value in self._corrected.items() if key in self._config}
        self._own = getattr(diffusers, name, None)
        if not (isinstance(self._own, type) and issubclass(self._own, diffusers.SchedulerMixin)):
            raise ModelError(f"diffusers has no scheduler '{name}'.", where=self._where, remedy="update diffusers")

    def make(self, short: str | None = None) -> Any:
        """A new scheduler: the model's own class (None), or the one of a short name, both from the model's config."""
        if short is not None and short not in SCHEDULERS:
            raise ModelError(
                f"there is no scheduler '{short}'.",
                where=self._where,
                remedy=did_you_mean(short, SCHEDULERS) or f"schedulers: {', '.join(SCHEDULERS)}",
            )
        kind: Any = getattr(diffusers, SCHEDULERS[short]) if short else self._own
        try:
            with quiet(), _numpy_2():
                made = kind.from_config(self._config)
                if short is None:
                    made.register_to_config(**{k: value for k, value in self._corrected.items() if k in made.config})
        except (TypeError, ValueError, NotImplementedError) as error:
            raise ModelError(
                f"{kind.__name__} cannot be built from the model's scheduler ({error}).",
                where=self._where,
                remedy="name another scheduler",
            ) from error
        require_seeded(made.config, self._where)
        return made


def require_seeded(config: Mapping[str, Any], where: str) -> None:
    """Raises ModelError for a scheduler of a flow for which diffusers draws from the process's own generator."""
    if config.get("stochastic_sampling"):
        raise ModelError(
            "the scheduler adds noise that no seed decides (stochastic_sampling).",
            where=where,
            remedy="set it to false: pictures of a prompt and seed have to be the same ones in every run",
        )


def quiet() -> contextlib.AbstractContextManager[None]:
    """No progress bars and no reports of diffusers or transformers on standard error."""
    return silenced(diffusers_logging, transformers_logging)


@contextlib.contextmanager
def _numpy_2() -> Iterator[None]:
    """diffusers 0.42 makes arrays of tensors in a way that numpy 2 warns of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "__array__ implementation doesn't accept a copy", DeprecationWarning)
        yield


class Schedule:
    """A scheduler set to a number of steps, and the part of its timesteps that one batch runs. Used once.

    `skip_to_strength`, `start_at` and `stop_at` cut the timesteps as diffusers' pipelines do: img2img's strength,
    `denoising_start` and `denoising_end` of an ensemble of experts.
    """

    def __init__(self, scheduler: Any, steps: int, device: torch.device) -> None:
        if steps < 1:
            raise ModelError(f"a schedule cannot have {steps} steps.", remedy="set at least one step")
        self.scheduler, self.steps = scheduler, steps
        with _numpy_2():
            scheduler.set_timesteps(steps, device=device)
        self.timesteps: torch.Tensor = scheduler.timesteps
        self._takes_generator = "generator" in inspect.signature(scheduler.step).parameters

    def __len__(self) -> int:
        return len(self.timesteps)

    def skip_to_strength(self, strength: float) -> Schedule:
        """Keep the last `strength` (0..1] of the steps. Raises ModelError where none is left."""
        first = max(self.steps - min(int(self.steps * strength), self.steps), 0) * self.scheduler.order
        return self._from(first, f"strength {strength} of {self.steps} steps")

    def start_at(self, share: float) -> Schedule:
        """Keep what is left to do after `share` (0..1) of the training schedule: a refiner's part."""
        left = int((self.scheduler.timesteps < self._cutoff(share)).sum())
        if self.scheduler.order == 2 and left % 2 == 0:
            left += 1  # a step of second order is two evaluations, which are not parted
        return self._from(len(self.scheduler.timesteps) - left, f"a start at {share} of {self.steps} steps")

    def stop_at(self, share: float) -> Schedule:
        """Drop what comes after `share` (0..1) of the training schedule: the part before a refiner."""
        self.timesteps = self.timesteps[: int((self.timesteps >= self._cutoff(share)).sum())]
        return self._required(f"a stop at {share} of {self.steps} steps")

    def _cutoff(self, share: float) -> int:
        trained = int(self.scheduler.config.num_train_timesteps)
        return round(trained - share * trained)

    def _from(self, first: int, what: str) -> Schedule:
        self.timesteps = self.scheduler.timesteps[first:]
        if hasattr(self.scheduler, "set_begin_index"):
            self.scheduler.set_begin_index(first)
        return self._required(what)

    def _required(self, what: str) -> Schedule:
        if not len(self.timesteps):
            raise ModelError(f"{what} leaves no step to run.", remedy="set more steps, or a larger share of them")
        return self

    def begin(self, noise: torch.Tensor) -> torch.Tensor:
        """Pure noise as this scheduler's first latents."""
        return noise * float(self.scheduler.init_noise_sigma)

    def noised(self, latents: torch.Tensor, noise: torch.Tensor, step: int) -> torch.Tensor:
        """Clean latents as they look at the start of a step of this schedule."""
        found: torch.Tensor = self.scheduler.add_noise(latents, noise, self.timesteps[step : step + 1])
        return found

    def draws(self, generators: Sequence[torch.Generator]) -> dict[str, list[torch.Generator]]:
        """What the scheduler's `step` takes besides: a scheduler that draws noise draws each image's from its own."""
        return {"generator": list(generators)} if self._takes_generator else {}
