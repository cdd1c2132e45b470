"""How a process of fairgate ends: without a search for cycles, unless a library would complain."""

import gc
import sys
from types import ModuleType

import pytest

from fairgate.interfaces import end_quickly


@pytest.mark.parametrize("imported", [True, False])
def test_objects_are_left_alone_at_the_end_unless_triton_would_list_its_own(
    monkeypatch: pytest.MonkeyPatch, imported: bool
) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    if imported:
        monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    end_quickly()
    assert bool(frozen) is not imported
