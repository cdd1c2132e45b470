"""Options from four places: command line, environment, suite file, ini; the first that speaks wins."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairgate.errors import SettingsError, did_you_mean
from fairgate.suites.options import OPTIONS, Option
from fairgate.suites.schema import Suite


@dataclass(frozen=True, slots=True)
class Settings:
    """Every option, resolved for one suite."""

    model: str
    baseline: str
    report: Path | None
    mlflow: str | None
    on_inconclusive: str
    device: str
    cache: Path | None
    allow_pickle: bool = False
    leniency_is_the_suites: bool = False
    """Whether `on_inconclusive` is what it is because the suite says so, and nobody before it."""


def resolve(
    suite: Suite,
    cli: Mapping[str, str | None],
    *,
    ini: Callable[[str], str | None] = lambda _name: None,
    environment: Mapping[str, str] | None = None,
    allow_pickle: bool = False,
) -> Settings:
    """Resolve the options for a suite: command line, then environment, then suite file, then ini, then the default.

    `cli` maps option names to what was typed (None: nothing); `ini(name)` reads an ini twin. Raises SettingsError for a
    value that is not one of an option's choices, for a missing model, and for pickles in CI.
    """
    env = os.environ if environment is None else environment
    in_suite = {"model": suite.model, "baseline": suite.baseline, "on-inconclusive": suite.on_inconclusive}

    def value(name: str) -> str | None:
        option = OPTIONS[name]
        places = (
            (option.flag, cli.get(name)),
            (option.environment, env.get(option.environment)),
            ("the suite", in_suite.get(name)),
            (option.ini, ini(option.ini)),
        )
        for place, text in places:
            if text:
                return _checked(option, text, place)
        return option.default

    model = value("model")
    if model is None:
        raise SettingsError(
            f"suite '{suite.suite}' names no model, and none was given.",
            where="--fairness-model",
            remedy="give --fairness-model URI (open_clip:ARCH@FILE, hf:FOLDER, scores:FILE), or `model:` in the suite",
        )
    if allow_pickle and env.get("CI", "").lower() in ("1", "true"):
        raise SettingsError(
            "--fairness-allow-pickle is refused in CI: a pickled checkpoint can run any code on the runner.",
            where="--fairness-allow-pickle",
            remedy="convert the checkpoint to safetensors",
        )
    mlflow, cache, report = value("mlflow"), value("cache"), value("report")
    return Settings(
        model=model,
        baseline=value("baseline") or "none",
        report=Path(report) if report else None,
        mlflow=None if mlflow == "off" else mlflow,
        on_inconclusive=value("on-inconclusive") or "fail",
        leniency_is_the_suites=not any(
            (cli.get("on-inconclusive"), env.get(OPTIONS["on-inconclusive"].environment), not suite.on_inconclusive)
        ),
        device=value("device") or "auto",
        cache=None if cache == "off" else Path(cache) if cache else default_cache(env),
        allow_pickle=allow_pickle,
    )


def default_cache(environment: Mapping[str, str]) -> Path:
    """Where embeddings are kept when nobody says: beside the user's other caches."""
    home = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "fairgate"


def _checked(option: Option, text: str, place: str) -> str:
    if option.choices and text not in option.choices:
        near = did_you_mean(text, option.choices)
        raise SettingsError(
            f"'{text}' is not a value of {option.flag}.",
            where=place,
            remedy=" ".join(filter(None, [near, f"one of: {', '.join(option.choices)}"])),
        )
    return text
