"""Properties become methods, so that mutmut, which leaves out what is decorated, changes them too.

    git clone . ../mutated && cd ../mutated && python -m benchmarks.open_properties fairgate/records/run.py ...

It rewrites the files that are named: run it in a copy, never in the checkout that is developed.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path


def opened(text: str) -> str:
    """A module in which every property `name` is made of a method `name_`."""
    lines = text.splitlines(keepends=True)
    methods = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and [ast.unparse(each) for each in node.decorator_list] == ["property"]
    ]
    for method in sorted(methods, key=lambda each: each.lineno, reverse=True):
        assert method.end_lineno is not None
        indent = " " * method.col_offset
        lines.insert(method.end_lineno, f"{indent}{method.name} = property({method.name}_)\n")
        lines[method.lineno - 1] = lines[method.lineno - 1].replace(f"def {method.name}(", f"def {method.name}_(", 1)
        del lines[method.decorator_list[0].lineno - 1]
    return "".join(lines)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(opened(Path(name).read_text()))
