"""Schedulers by short name, and what is refused and silenced of diffusers' own."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import diffusers
from diffusers.utils import logging as diffusers_logging
from transformers.utils import logging as transformers_logging

from fairgate.ground.errors import ModelError, did_you_mean
from fairgate.models.checkpoints import naming, silenced

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


def make_scheduler(name: str, config: Mapping[str, Any], where: str) -> Any:
    """A new scheduler of diffusers, by its short name or its class. Raises ModelError for a class that diffusers lacks,
    and for a config that it does not take."""
    kind = getattr(diffusers, SCHEDULERS.get(name, name), None)
    if not (isinstance(kind, type) and issubclass(kind, diffusers.SchedulerMixin)):
        raise ModelError(
            f"diffusers has no scheduler '{name[:80]}'.",
            where=where,
            remedy=did_you_mean(name, SCHEDULERS) or f"update diffusers; short names: {', '.join(SCHEDULERS)}",
        )
    with naming(where, f"have a {name}"), running_diffusers():
        made = kind.from_config(config)  # type: ignore[attr-defined] # a scheduler is a ConfigMixin, too
    require_seeded(made.config, where)
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
def running_diffusers() -> Iterator[None]:
    """The same, and no warnings: of old configs that diffusers corrects, and of what it does that numpy 2 warns of."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("ignore", "__array__ implementation doesn't accept a copy", DeprecationWarning)
        yield
