"""What a first suite writes of a table of answers and of other people's texts: options, what is right, and quotes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import wrap

from fairgate.data import Manifest
from fairgate.metrics import GroupedRows
from fairgate.probes import ABSTAINED, UNREADABLE, AnswerMatcher

_BREAKS = re.compile(r"[\x7f-\x9f\u2028\u2029]")
"""What YAML refuses, or folds as the end of a line, and JSON writes as it is."""


def as_json(value: object) -> str:
    """JSON that YAML reads as the same."""
    return _BREAKS.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def quoted(text: str) -> str:
    """Plain where YAML reads it back as it is, else in double quotes."""
    plain = text.replace("_", "").replace("-", "").replace(" ", "").isalpha() and text == text.strip()
    spoken = text.lower() in {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return text if plain and not spoken and text.isascii() and text[0] != "-" else f'"{escaped}"'


Right = str | tuple[str, dict[str, str]] | None
"""An option or `abstain`; or an attribute, `subject` or `set_id`, with what is right for each of its values."""
MOST, _COVERED = 20, 0.9
"""Options of a question at most, and the share of answers that must be read as one of them."""
_YES_NO = ("yes", "no")
MOST_SETS = 5_000
"""Sets of which a suite lists what is right, of all its questions: a longer file is not read."""
_WIDTH = 110


def options_of(given: Sequence[str], targets: Sequence[str]) -> list[str]:
    """Names of options by which answers can be read: the targets, else the answers; none of many, or of long ones."""
    options = _named(targets)
    matcher = _matcher(options)
    if options and sum(matcher.read(text) != UNREADABLE for text in given) >= _COVERED * len(given):
        return options
    return _named(given)


def _named(texts: Sequence[str]) -> list[str]:
    """Texts as names of options, the commonest first; yes and no if they begin so."""
    words = _matcher(_YES_NO)
    naming = [text for text in texts if text.strip() and words.read(text) != ABSTAINED]
    read = Counter(words.read(text) for text in naming)
    if naming and sum(read[name] for name in _YES_NO) >= _COVERED * len(naming):
        return list(_YES_NO)
    names = Counter(re.sub(r"[^a-z]+", "_", text.lower()).strip("_") for text in naming)
    plain = all(re.fullmatch(r"[a-z][a-z_]{0,31}", option) for option in names)
    return [option for option, _ in names.most_common()] if plain and 2 <= len(names) <= MOST else []


def _matcher(options: Sequence[str]) -> AnswerMatcher:
    return AnswerMatcher(dict.fromkeys(options, ()), frozenset(), ())


def right_of(
    targets: Mapping[int, str], options: Sequence[str], dataset: Manifest, index: GroupedRows, most: int = MOST_SETS
) -> Right:
    """What is right about every image, from its `targets` by row, in the fewest words; None if an image has no target,
    a target is no option, images of a set have several, or `most` sets are not enough."""
    matcher = _matcher(options)
    meant = {text: matcher.read(text) for text in set(targets.values())}
    if len(targets) < len(index.set_id) or UNREADABLE in meant.values():
        return None
    answers = ["abstain" if meant[targets[row]] == ABSTAINED else meant[targets[row]] for row in sorted(targets)]
    if len(set(answers)) == 1:
        return answers[0]
    known = {name: (values, index.attributes[name].tolist()) for name, values in dataset.attributes.items()}
    columns = {"subject": (dataset.subjects, index.subject.tolist()), **known, "set_id": ((), index.set_id.tolist())}
    for name, (values, column) in columns.items():
        pairs = sorted(set(zip(column, answers, strict=True)))
        by_value = dict(pairs)
        if len(by_value) == len(pairs) <= most and by_value.keys() >= set(values):
            return name, by_value
    return None


def written(right: Right) -> str:
    """As a value of YAML, over several lines if there are many; empty for None."""
    if right is None or isinstance(right, str):
        return "" if right is None else quoted(right)
    name, by_value = right
    pairs = [f"{quoted(value)}: {quoted(option)}" for value, option in by_value.items()]
    unbroken = ", ".join(pair.replace(" ", "\0") for pair in pairs)
    lines = wrap(unbroken, _WIDTH, break_long_words=False, break_on_hyphens=False)
    start = "\n          " if len(lines) > 1 else ""
    return f"{{{quoted(name)}: {{{start}{start.join(lines)}}}}}".replace("\0", " ")


def tally_of(right: Right) -> str:
    """`: of 240 sets "yes" for 118, "no" for 122`, of a list set by set, which nobody counts; else nothing."""
    if right is None or isinstance(right, str) or right[0] != "set_id":
        return ""
    counts = Counter(right[1].values()).most_common()
    return f": of {len(right[1]):,} sets, {', '.join(f'{quoted(option)} for {count:,}' for option, count in counts)}"
