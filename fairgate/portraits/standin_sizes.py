"""Sizes of what the stand-ins see."""

from __future__ import annotations

LOOK = 48
"""Side in pixels of what the asker sees."""
CHIP = 32
"""Side in pixels of a face chip."""
FIND = 64
"""Side in pixels of what the finder sees."""
GRID = 16
"""Cells of the finder's grid, across and down."""
KINDS = ("person", "face")
"""What the finder finds."""
