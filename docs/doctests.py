"""For mkdocstrings: examples in docstrings become code blocks. Markdown takes `>>>` for a quotation."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Doctests(Extension):  # type: ignore[misc] # griffe is installed with the extra `docs` alone
    """Put every block that starts with `>>>` into a fence."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(lambda block: f"```pycon\n{block[0]}\n```", obj.docstring.value)
