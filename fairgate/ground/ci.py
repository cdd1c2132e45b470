"""What the environment variables of a run contain: of its CI service, and of its limits of time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairgate.ground.errors import FairgateError


def in_ci(environment: Mapping[str, str]) -> bool:
    """Whether this is a run of a CI service, which sets CI=true."""
    return environment.get("CI", "").lower() in ("1", "true")


def on_github(environment: Mapping[str, str]) -> bool:
    """Whether GitHub Actions runs this."""
    return environment.get("GITHUB_ACTIONS") == "true"


def on_gitlab(environment: Mapping[str, str]) -> bool:
    """Whether GitLab CI runs this."""
    return environment.get("GITLAB_CI") == "true"


def patience(environment: Mapping[str, str], variable: str, usual: int, error: type[FairgateError]) -> float:
    """The seconds that a variable sets, or the usual ones. Raises the error for anything but a number above 0."""
    text = environment.get(variable) or str(usual)
    with contextlib.suppress(ValueError):
        if (seconds := float(text)) > 0:
            return seconds
    raise error(
        f"{variable} is '{text}', which is no number of seconds.", where="environment", remedy=f"set {variable}={usual}"
    )


def target_branch(environment: Mapping[str, str]) -> str | None:
    """The branch that the pull request or merge request goes into; None where this is a run of neither."""
    gitlab = environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME") if on_gitlab(environment) else None
    return environment.get("GITHUB_BASE_REF") or gitlab or None


def github_event(environment: Mapping[str, str]) -> dict[str, Any]:
    """The event that started a workflow of GitHub; empty where there is none."""
    try:
        event = json.loads(Path(environment.get("GITHUB_EVENT_PATH", "")).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def event_default_branch(environment: Mapping[str, str]) -> str | None:
    """The default branch's name, from GitHub's event or GitLab's variable; None where neither names it."""
    if on_gitlab(environment):
        return environment.get("CI_DEFAULT_BRANCH") or None
    repository = github_event(environment).get("repository")
    name = repository.get("default_branch") if isinstance(repository, dict) else None
    return name if isinstance(name, str) else None
