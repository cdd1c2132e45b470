"""The models that steps open: each once per worker, however many subjects of a part it makes."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fairgate.models import generation

_open: ContextVar[dict[tuple[Any, ...], Any] | None] = ContextVar("open", default=None)


@contextmanager
def sharing(models: dict[tuple[Any, ...], Any]) -> Iterator[None]:
    """Within the block, models are taken from `models`, and those that are missing are added."""
    token = _open.set(models)
    try:
        yield
    finally:
        _open.reset(token)


def open_model(role: str, uri: str, **where: Any) -> Any:
    """As `fairgate.models.generation.open_model`; within `sharing`, one model for one role, URI and place."""
    models, key = _open.get(), (role, uri, *where.items())
    if models is None:
        return generation.open_model(role, uri, **where)
    if key not in models:
        models[key] = generation.open_model(role, uri, **where)
    return models[key]
