"""Options of a run, resolved from the command line, the environment, the suite file and the ini file, in this order."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairgate.ground.ci import event_default_branch, target_branch
from fairgate.ground.errors import SettingsError, suggestion
from fairgate.ground.local_paths import require_local
from fairgate.suites.options import OPTIONS
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
    leniency_is_the_suites: bool = False
    """Whether `on_inconclusive` comes from the suite, and not from the command line or the environment."""
    bases: tuple[str, ...] | None = None
    """Branches whose definition of the gate counts: the base, then others. None where none was named."""
    from_suite: frozenset[str] = frozenset()
    """Which of `model` and `baseline` neither the command line nor the environment named."""
    pull_request: bool = False
    """Whether this is a run of a pull request on GitHub, or of a merge request on GitLab."""
    wandb: str | None = None
    """Project of Weights & Biases, `PROJECT` or `ENTITY/PROJECT`."""


def resolve(
    suite: Suite,
    cli: Mapping[str, str | None],
    *,
    ini: Callable[[str], str | None] = lambda _name: None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Resolve the options for a suite: command line, then environment, then suite file, then ini, then the default.

    `cli` maps option names to what was typed (None: nothing); `ini(name)` reads an ini twin. Raises SettingsError for a
    value that is not one of an option's choices, and for a missing model.
    """
    env = os.environ if environment is None else environment
    in_suite = {"model": suite.model, "baseline": suite.baseline, "on-inconclusive": suite.on_inconclusive}

    def named(name: str) -> str | None:
        return cli.get(name) or env.get(OPTIONS[name].environment)

    def value(name: str) -> str | None:
        option = OPTIONS[name]
        places = {
            option.flag: cli.get(name),
            option.environment: env.get(option.environment),
            "the suite": in_suite.get(name),
            option.ini: ini(option.ini),
        }
        place, text = next(((place, text) for place, text in places.items() if text), ("", option.default))
        if text and option.choices and text not in option.choices:
            raise SettingsError(
                f"'{text}' is not a value of {option.flag}.",
                where=place,
                remedy=suggestion(text, option.choices, f"one of: {', '.join(option.choices)}"),
            )
        return text

    model = value("model")
    if model is None:
        raise _no_model(suite)
    mlflow, wandb, cache, report = value("mlflow"), named("wandb"), value("cache"), value("report")
    return Settings(
        model=model,
        baseline=value("baseline") or "none",
        report=require_local(report, OPTIONS["report"].flag) if report else None,
        mlflow=None if mlflow == "off" else mlflow,
        on_inconclusive=value("on-inconclusive") or "fail",
        leniency_is_the_suites=bool(suite.on_inconclusive) and not named("on-inconclusive"),
        device=value("device") or "auto",
        cache=cache_folder(cache, env),
        bases=named_bases(cli.get("base"), env),
        from_suite=frozenset(name for name in ("model", "baseline") if not named(name)),
        pull_request=target_branch(env) is not None,
        wandb=None if wandb == "off" else wandb,
    )


def _no_model(suite: Suite) -> SettingsError:
    from fairgate.models import uri_forms

    return SettingsError(
        f"suite '{suite.suite}' names no model, and none was given.",
        where="--fairness-model",
        remedy=f"give --fairness-model URI ({uri_forms()}), or `model:` in the suite",
    )


def named_bases(typed: str | None, environment: Mapping[str, str] | None = None) -> tuple[str, ...] | None:
    """The branches whose definition of the gate counts, as git references; None where none was named.

    Not read from the suite or an ini file: those are the branch's own. `none` on the command line names no branch.
    """
    env = os.environ if environment is None else environment
    text = typed or env.get(OPTIONS["base"].environment)
    if text:
        return () if text == "none" else tuple(text.split())
    branch = target_branch(env)
    if branch is None:
        return None
    default = event_default_branch(env)
    return tuple(f"origin/{name}" for name in dict.fromkeys((branch, default)) if name)


def cache_folder(choice: str | None, environment: Mapping[str, str]) -> Path | None:
    """The folder of the embedding cache: the one that is named, the default where none is, None for `off`."""
    if choice == "off":
        return None
    return require_local(choice, OPTIONS["cache"].flag) if choice else default_cache(environment)


def default_cache(environment: Mapping[str, str]) -> Path:
    """The default folder of the embedding cache: in the user's cache folder."""
    home = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "fairgate"


def command_line(suite: str, settings: Settings) -> str:
    """`pytest --fairness-suite ...` with what decides the verdict: suite, model, baseline, base, leniency."""
    words = ["pytest", "--fairness-suite", suite, "--fairness-model", settings.model]
    words += ["--fairness-baseline", settings.baseline]
    if settings.bases is not None:
        words += ["--fairness-base", " ".join(settings.bases) or "none"]
    if settings.on_inconclusive != "fail":
        words += ["--fairness-on-inconclusive", settings.on_inconclusive]
    return shlex.join(words)
