"""What the YAML of probes and checks is made of: names, texts that are shown everywhere, templates of prompts."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from fairgate.ground.errors import harmless, listed

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=80)]


def plain(text: str) -> str:
    """A text that terminals and logs show as it is. Raises ValueError for another one."""
    if harmless(text) != text:
        raise ValueError(f"'{harmless(text)}' holds control characters, or reads as a command to a CI log")
    return text


LONGEST_PROSE = 500
Prose = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_PROSE)]
Text = Annotated[Prose, AfterValidator(plain)]
"""A name or prompt that is shown everywhere: test ids, tables, logs."""
Texts = list[Text] | dict[Text, list[Text]]
"""Texts, or texts by category."""


def every_text(texts: Sequence[str] | Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Those of all categories, each as often as it is given."""
    return tuple(text for own in texts.values() for text in own) if isinstance(texts, Mapping) else tuple(texts)


def by_category(texts: Sequence[str] | Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Texts by category; empty where they have none."""
    return {name: tuple(own) for name, own in texts.items()} if isinstance(texts, Mapping) else {}


def given_once(what: str, values: Sequence[Any]) -> None:
    """Raise ValueError, `what` are given twice, if some are."""
    if twice := sorted({value for value in values if values.count(value) > 1}):
        raise ValueError(f"{what} are given twice: {listed([str(value) for value in twice])}")


class SuiteSection(BaseModel):
    """A part of a suite file: its keys and nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def checked_template(text: str, placeholder: str, also: Iterable[str] = ()) -> str:
    """A template that uses `{placeholder}` or `{a_placeholder}`, and of others at most `also`. Raises ValueError."""
    needed = {placeholder, f"a_{placeholder}"}
    try:
        fields = _fields(text)
    except ValueError as error:
        raise ValueError(f"'{text}' is not a template: {error}") from error
    if unknown := fields.difference(needed, also):
        known = listed([f"{{{name}}}" for name in (*sorted(needed), *also)])
        raise ValueError(f"'{text}' has the unknown placeholder {{{min(unknown)}}}; known: {known}")
    if not fields & needed:
        raise ValueError(f"'{text}' never uses {' or '.join(f'{{{name}}}' for name in sorted(needed))}")
    return text


def _fields(text: str) -> set[str]:
    """Names of the placeholders. Widths and conversions are refused: `{label:>999999999}` would fill the memory."""
    names: set[str] = set()
    for _, name, specification, conversion in string.Formatter().parse(text):
        if specification or conversion:
            raise ValueError("a placeholder is a name in braces and nothing more")
        if name is not None:
            names.add(name)
    return names


def template_of(placeholder: str) -> AfterValidator:
    """What makes a text a template of `{placeholder}` or `{a_placeholder}`, as metadata of its type."""
    return AfterValidator(lambda text: checked_template(text, placeholder))


def filled(text: str, placeholder: str, word: str) -> str:
    """A template with a word in it."""
    return text.format(**{placeholder: word, f"a_{placeholder}": with_article(word)})


def in_words(name: str, words: dict[str, str]) -> str:
    """How a subject or group is written in a prompt: as `words` says, else with spaces."""
    return words.get(name, name.replace("_", " "))


def with_article(word: str) -> str:
    """`an engineer`, `a chef`, `an usher`, `a university clerk`: the article by how the word begins."""
    begins = word.lower()
    vowel = begins[:1] in tuple("aeio") or (begins[:1] == "u" and not begins.startswith(("uni", "use", "uti")))
    vowel = vowel or begins.startswith("unin")  # `an uninsured person`
    return f"{'an' if vowel or begins.startswith(('hour', 'honest')) else 'a'} {word}"
