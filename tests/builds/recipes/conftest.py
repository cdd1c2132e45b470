"""Recipes with models that tell what they are asked."""

from __future__ import annotations

import fake_makers
import pytest

from fairgate.models.generation import registry


@pytest.fixture
def fakes(monkeypatch):
    """Every role has an adapter `fake:`; `fakes[role]` is the model that was opened last."""
    roles = ("painter", "inpainter", "asker", "detector", "segmenter", "face_reader")
    for role in roles:
        monkeypatch.setitem(registry.ADAPTERS, f"fake.{role}", "fake_makers")
    fake_makers.OPENED.clear()
    return fake_makers.OPENED
