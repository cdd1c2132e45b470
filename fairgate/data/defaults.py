"""What commands show as defaults, in a module that imports nothing: help is printed without reading a dataset."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("datasets")
"""Where repositories had their releases before fairgate 0.3, and still have them."""
FOLDER = Path("fairness_data")
"""Where others have them: Python takes a folder `datasets` for the library of that name."""
RELEASES = (ROOT, FOLDER)
MIN_SETS = 30
"""Fewest sets of a group that a suite judges where it does not say (`groups.min_sets`)."""
