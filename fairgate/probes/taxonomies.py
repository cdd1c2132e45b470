"""So-B-IT, the taxonomy of Hamidieh et al. 2024 (table 4): words by category, and the caption that each makes.

The paper speaks of 374 words in ten (or nine) types; its table 4 has these nine, with 405 entries, which are 400
different words: `savage`, `aggressive`, `lazy`, `radical` and `primitive` are in two each. Words are spelled as there
(`attourney`). Which word is an adjective, a noun or an activity, which decides its caption, is not in the paper: it is
chosen in so_b_it.json, one form for a word.

Nor does the paper list which words are positive and which negative. Labelled are the words that VADER's lexicon scores
above or below 0 (Hutto and Gilbert 2014; vaderSentiment 3.3.2, copyright 2016 C.J. Hutto, MIT licence; without
`cleaner`, which it takes for a comparative), and eight more that the paper's text calls negative: bossy, felon,
gang-related, psychopath, and as "stereotypical and negative" barbaric, ghetto, immigrant, tribal (and oriental, which
table 4 lacks). Most words, all of religion among them, have no label.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from fairgate.ground.errors import SettingsError, suggestion
from fairgate.probes.settings import filled

TaxonomyName = Literal["so-b-it"]
WordForm = Literal["adjective", "noun", "activity"]
WORD_FORMS: tuple[WordForm, ...] = get_args(WordForm)


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """Words by category, as printed, the caption of every word, and `positive` or `negative` of those with a label;
    `templates` are the prompts by form."""

    categories: Mapping[str, tuple[str, ...]]
    captions: Mapping[str, str]
    valence: Mapping[str, str]
    templates: Mapping[str, str]

    def chosen(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """These categories, in the taxonomy's order. Raises SettingsError for one that it lacks."""
        for name in names:
            if name not in self.categories:
                raise SettingsError(
                    f"the taxonomy has no category '{name}'.",
                    remedy=suggestion(name, self.categories, f"categories: {', '.join(self.categories)}"),
                )
        return {name: words for name, words in self.categories.items() if name in names}

    def caption(self, word: str, form: WordForm) -> str:
        """The caption that a word of a form makes, also one that is not in the taxonomy."""
        return filled(self.templates[form], "word", word)


@cache
def taxonomy(name: TaxonomyName) -> Taxonomy:
    """A taxonomy by its name.

    >>> so_b_it = taxonomy("so-b-it")
    >>> so_b_it.captions["ambitious"], so_b_it.captions["actor"], so_b_it.captions["prone to disease"]
    ('a photo of an ambitious person', 'a photo of an actor', 'a photo of a person who is prone to disease')
    >>> so_b_it.valence["ambitious"], so_b_it.valence["terrorist"], so_b_it.valence.get("actor")
    ('positive', 'negative', None)
    """
    file = files("fairgate.probes").joinpath(f"{name.replace('-', '_')}.json")
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    templates = data["templates"]
    by_form = [(form, word) for forms in data["categories"].values() for form in forms for word in forms[form]]
    return Taxonomy(
        {name: tuple(word for words in forms.values() for word in words) for name, forms in data["categories"].items()},
        {word: filled(templates[form], "word", word) for form, word in by_form},
        {word: label.partition(" ")[0] for label, words in data["valence"].items() for word in words},
        templates,
    )
