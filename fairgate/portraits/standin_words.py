"""What the stand-ins' outputs mean, in order."""

from __future__ import annotations

from fairgate.portraits.world import ATTRIBUTES, LABELS

AGES = ("20-29", "60-69")
"""Two of FairFace's groups: lines of age in a drawing are taken for the second one."""

NOTHING = len(LABELS)
"""The asker's class for a picture without a person, after every label."""

READ: dict[str, tuple[str, ...]] = {**{name: tuple(groups) for name, groups in ATTRIBUTES.items()}, "age": AGES}
"""What the face reader perceives, and its groups."""
