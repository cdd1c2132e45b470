"""Hypothesis strategies: real files, a little or thoroughly wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import yaml
from hypothesis import strategies as st

_TEXTS = [
    *("", " ", "\0", "\n", "\x1b[31m", "\u202e", "\ud800", "::error::x", "##[group]", "../../etc/passwd", "~nobody/x"),
    *(
        "<script>",
        "|",
        "`",
        "{",
        "}",
        "{label:>99999999}",
        "{0}",
        "%s",
        "NaN",
        "1e999",
        "9" * 5000,
        "x" * 5000,
        "\ufeff",
    ),
]
_NUMBERS = [0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**300, 10**4200, 0.5, -0.0, 1e308, 5e-324]
texts = st.sampled_from(_TEXTS) | st.text(max_size=20)
leaves = st.none() | st.booleans() | st.sampled_from(_NUMBERS) | st.integers() | st.floats() | texts
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a tree."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [*([above] if above else []), *(place for key, value in parts for place in places(value, (*above, key)))]


@st.composite
def mutated_tree(draw: st.DrawFn, seeds: Sequence[Any], most: int = 3) -> Any:
    """A tree of plain data in which a few values are others, gone, doubled, or taken from elsewhere in it."""
    tree = copy.deepcopy(draw(st.sampled_from(list(seeds))))
    for _ in range(draw(st.integers(0, most))):
        known = places(tree)
        if not known:
            return draw(trees)
        *above, last = draw(st.sampled_from(known))
        holder = tree
        for key in above:
            holder = holder[key]
        what = draw(st.sampled_from(["other", "gone", "copied", "key", "nested"]))
        if what == "gone":
            del holder[last]
        elif what == "key" and isinstance(holder, dict):
            holder[draw(texts)] = holder.pop(last)
        elif what == "copied":
            source: Any = tree
            for key in draw(st.sampled_from(places(tree) or [()])):
                source = source[key]
            holder[last] = copy.deepcopy(source)
        elif what == "nested":
            holder[last] = [holder[last]]
        else:
            holder[last] = draw(trees)
    return tree


def as_json(tree: Any) -> bytes:
    """JSON as Python writes it, with NaN and lone surrogates where the tree has them."""
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def as_yaml(tree: Any) -> bytes:
    """YAML that reads back as the tree, where there is such YAML."""
    return yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")


def written(seeds: Sequence[Any], *ways: Callable[[Any], bytes]) -> st.SearchStrategy[bytes]:
    """Mutated trees in one of several spellings."""
    return st.tuples(mutated_tree(seeds), st.sampled_from(ways)).map(lambda pair: _spelled(*pair))


def _spelled(tree: Any, way: Callable[[Any], bytes]) -> bytes:
    try:
        return way(tree)
    except ValueError:  # more digits than Python prints
        return b"{}"


@st.composite
def mutated_bytes(draw: st.DrawFn, seeds: Sequence[bytes], most: int = 6) -> bytes:
    """Real bytes with a few overwritten, cut out, doubled or put in, at places drawn from all over the file."""
    data = bytearray(draw(st.sampled_from(list(seeds))))
    for _ in range(draw(st.integers(0, most))):
        at = int(draw(st.floats(0, 1, exclude_max=True)) * (len(data) + 1))
        if draw(st.booleans()):  # headers and footers say what the rest means
            at = draw(st.integers(0, min(64, len(data)))) if draw(st.booleans()) else max(0, len(data) - at % 512)
        what = draw(st.sampled_from(["set", "flip", "cut", "double", "insert", "end"]))
        span = draw(st.integers(1, 16))
        if what == "set":
            data[at : at + span] = draw(st.binary(min_size=1, max_size=8))
        elif what == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif what == "cut":
            del data[at : at + span]
        elif what == "double":
            data[at:at] = data[at : at + 8 * span]
        elif what == "insert":
            data[at:at] = draw(st.sampled_from([b"\0", b"\xff" * 8, b"\x7f\xff\xff\xff", b'"', b"\n", b",", b"[" * 40]))
        elif what == "end":
            del data[at:]
    return bytes(data)
