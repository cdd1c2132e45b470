# For type checkers, and for the digests of builds/plan.py: what opens a model counts there, and not who shares it.
from contextlib import AbstractContextManager
from typing import Any

from fairgate.models.generation.registry import open_model as open_model

def sharing(models: dict[tuple[Any, ...], Any]) -> AbstractContextManager[None]: ...
