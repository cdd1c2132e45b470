"""Foreign text as one line of plain characters."""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, characters that change the direction of writing, and halves of characters."""


def clean(text: str, limit: int | None = None) -> str:
    """Foreign text on one line: white space joined, control and direction-changing characters made visible as �.

    With `limit`, at most so many characters, the last one an ellipsis where something was cut.
    """
    joined = " ".join(text.split()).replace("##[", "# #[")  # a workflow command of GitHub, wherever it stands
    cut = limit is not None and len(joined) > limit
    safe = _UNSEEN.sub("�", joined[: limit - 1] if limit is not None and cut else joined)
    return f"{safe}…" if cut else safe
