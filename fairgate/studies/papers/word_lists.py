"""What the papers ask about, without a model: the sets, words and captions of Howard et al. 2023 (tables 5 to 9), as
builds make them, and the taxonomy of Hamidieh et al. 2024 (table 4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod
from typing import Any, ClassVar, Literal, TypeAlias

from fairgate import builds
from fairgate.builds import TEMPLATES as CAPTION_TEMPLATES
from fairgate.builds.recipes import open_recipe
from fairgate.probes import taxonomy
from fairgate.records import StudyTable
from fairgate.studies.papers.contract import Study, StudyContents, StudyPlace, register

_PRINTED_TRAITS = ("beautiful", "skinny", "young", "unattractive", "fat", "obese", "scarred", "tattooed", "old")
_Example: TypeAlias = tuple[Literal["occupations", "traits"], str, dict[str, str], str, str]
_EXAMPLES: tuple[_Example, ...] = (
    ("occupations", "", {"gender": "male", "religion": "Christian"}, "pilot", "male Christian pilot"),
    (
        "occupations",
        "A photo of",
        {"race": "White", "gender": "male"},
        "electrician",
        "A photo of a White male electrician.",
    ),
    (
        "traits",
        "A picture of",
        {"religion": "Muslim", "gender": "female"},
        "friendly",
        "A picture of friendly muslim female",
    ),
    (
        "traits",
        "An image of",
        {"race": "Indian", "religion": "Hindu"},
        "sympathetic",
        "An image of sympathetic Indian Hindu",
    ),
)
"""What subjects are, prefix, groups and subject of table 9's captions, and each as it is printed."""


@register
class WordListsStudy(Study):
    """Words and captions that the papers list: tables 5 to 9 of Howard et al. 2023, table 4 of Hamidieh et al. 2024."""

    name: ClassVar[str] = "word-lists"
    title: ClassVar[str] = "Words and captions that the papers list"
    paper: ClassVar[str] = (
        "Howard et al. 2023, Probing Intersectional Biases in Vision-Language Models with Counterfactual Examples; "
        "Hamidieh et al. 2024, Identifying Implicit Social Biases in Vision-Language Models (So-B-IT)"
    )
    asks_models: ClassVar[bool] = False

    def run(self, _place: StudyPlace) -> StudyContents:
        """Every list, as builds and probes have it."""
        return StudyContents(models=[], datasets=[], settings={}, tables=[_sets(), *_subjects(), _captions(), _words()])


def _recipe(of: str, pair: tuple[str, ...]) -> Any:
    return open_recipe("social_counterfactuals", {"of": of, "pair": pair})


def _sets() -> StudyTable:
    attributes = ("race", "gender", "religion")
    pairs = [("occupations", pair) for pair in combinations((*attributes, "physical_trait"), 2)]
    pairs += [("traits", pair) for pair in combinations(attributes, 2)]
    rows = []
    for of, pair in pairs:
        recipe = _recipe(of, pair)
        prefixes, members = len(recipe.settings.prefixes), prod(map(len, recipe.attributes().values()))
        sets = prefixes * len(builds.subjects_of(of))
        made = prefixes * len(recipe.subjects())
        rows.append([of, " and ".join(pair), sets, members, sets * members * recipe.settings.attempts, made])
    return StudyTable(
        name="sets",
        title="Counterfactual sets of each pair of attributes",
        source="table 5 of Howard et al.",
        columns=["subject", "attribute pair", "counterfactual sets", "images per set", "total images", "sets built"],
        rows=rows,
        note="Sets and images count every printed subject; a build makes each spelling once ('sets built').",
    )


def _subjects() -> Iterator[StudyTable]:
    for kind, title, table in (("traits", "Personality traits", 6), ("occupations", "Occupations", 7)):
        built = {name.casefold(): name for name in _recipe(kind, ("race", "gender")).subjects()}
        yield StudyTable(
            name=kind,
            title=f"{title}, as they are printed, and as builds name them",
            source=f"table {table} of Howard et al.",
            columns=["printed", "built as"],
            rows=[[subject, built[subject.casefold()]] for subject in builds.subjects_of(kind)],
        )
    traits = _recipe("occupations", ("physical_trait", "gender")).attributes()["physical_trait"]
    yield StudyTable(
        name="physical-traits",
        title="Physical traits",
        source="table 8 of Howard et al.",
        columns=["trait", "in table 8"],
        rows=[[trait, "yes" if trait in _PRINTED_TRAITS else "no: in the authors' caption files"] for trait in traits],
    )


def _captions() -> StudyTable:
    rows = []
    for of, prefix, groups, subject, printed in _EXAMPLES:
        words = {attribute: {word: word} for attribute, word in groups.items()}
        (member,) = builds.caption_set(prefix, subject, words, CAPTION_TEMPLATES[of])
        rows.append(
            [f"{prefix} {CAPTION_TEMPLATES[of]}".strip(), *groups.values(), subject, member["caption"], printed]
        )
    return StudyTable(
        name="captions",
        title="Captions of one member of a set",
        source="table 9 of Howard et al.",
        columns=["template", "attribute 1", "attribute 2", "subject", "caption built", "caption printed"],
        rows=rows,
    )


def _words() -> StudyTable:
    return StudyTable(
        name="taxonomy",
        title="Words of So-B-IT by type of bias",
        source="table 4 of Hamidieh et al.",
        columns=["bias type", "number", "words"],
        rows=[[name, len(words), ", ".join(words)] for name, words in taxonomy("so-b-it").categories.items()],
    )
