"""Fixtures: pictures, a tiny model, an architecture that open_clip is told of, and its tokenizer, read once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from model_world import cache, local_dir, pictures, tiny_arch, tiny_model  # noqa: F401 - fixtures


@pytest.fixture(autouse=True, scope="session")
def _tokenizer_read_once() -> Iterator[None]:
    """open_clip reads 49,000 merges for each tiny model, which takes longer than the model."""
    from open_clip.tokenizer import SimpleTokenizer

    read, kept = SimpleTokenizer.__init__, dict[str, dict[str, Any]]()

    def init(self: SimpleTokenizer, *arguments: Any, context_length: int | None = 77, **options: Any) -> None:
        name = repr((arguments, options))
        if name not in kept:
            read(self, *arguments, **options)
            kept[name] = vars(self).copy()
        vars(self).update(kept[name], context_length=context_length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimpleTokenizer, "__init__", init)
        yield
