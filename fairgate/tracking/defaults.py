"""Where runs go unless a person says otherwise, in a module that imports nothing: help is printed without MLflow."""

from __future__ import annotations

from pathlib import Path

DEFAULT_URI = "sqlite:///fairgate.db"
"""A store in the working directory; artifacts go to `mlartifacts/` in the same folder."""
DEFAULT_QUEUE = Path(".fairgate/queue")
WANDB_QUEUE = Path(".fairgate/wandb")
