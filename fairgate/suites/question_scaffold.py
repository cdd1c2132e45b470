"""A first suite for a table of answers to questions without right answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairgate.ground.errors import SettingsError
from fairgate.metrics import GroupedRows
from fairgate.probes import ABSTAINED, AnswerMatcher, DatasetFacts
from fairgate.suites.scaffold import TOLERATES, compared_groups, rendered

_MOST = 20
_COVERED = 0.9
_YES_NO = ("yes", "no")
_UNNAMED = "The question that the table answers"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with its probe's name, the end of its checks' ids, its options, and those whose gap is checked."""

    probe: str
    end: str
    text: str
    options: Sequence[str]
    counted: Sequence[str]


def new_question_suite(
    name: str,
    dataset: DatasetFacts,
    index: GroupedRows,
    *,
    model: str,
    baseline: str,
    answers: Mapping[tuple[int, str], str],
    margin: float = TOLERATES[0],
) -> str:
    """The text of a suite for a table's `answers` by (row, prompt), whose options are what it answers.

    Raises SuiteError if no attribute has enough sets of every group, and SettingsError for answers in free words of
    which no options can be read.
    """
    by_prompt: dict[str, list[str]] = {} if answers else {_UNNAMED: []}
    for (_, prompt), answer in answers.items():
        by_prompt.setdefault(prompt, []).append(answer)
    compared, questions = compared_groups(dataset, index), []
    for number, (prompt, given) in enumerate(by_prompt.items(), 1):
        options = _options(given, model, name)
        several = len(by_prompt) > 1
        questions.append(
            _Asked(
                f"question_{number}" if several else "question",
                f"-{number}" if several else "",
                prompt or _UNNAMED,
                options,
                options[:1] if len(options) == len(_YES_NO) else options,
            )
        )
    return rendered(
        "new_question_suite.yaml.j2",
        name=name,
        dataset=dataset.name,
        model=model,
        baseline=baseline,
        questions=questions,
        overs=compared.overs,
        gaps=compared.gaps,
        margin=f"{margin:g}",
    )


def _options(given: Sequence[str], model: str, suite: str) -> list[str]:
    """Answers that are given, as names of options, the commonest first; or yes and no if answers begin so."""
    words = AnswerMatcher(dict.fromkeys(_YES_NO, ()), frozenset(), ())
    answered = [text for text in given if text.strip() and words.read(text) != ABSTAINED]
    read = Counter(words.read(text) for text in answered)
    if answered and sum(read[name] for name in _YES_NO) >= _COVERED * len(answered):
        return list(_YES_NO)
    names = Counter(re.sub(r"[^a-z]+", "_", text.lower()).strip("_") for text in answered)
    if 2 <= len(names) <= _MOST and all(re.fullmatch(r"[a-z][a-z_]{0,31}", option) for option in names):
        return [option for option, _ in names.most_common()]
    raise SettingsError(
        f"the answers are {len(names)} different texts, and not 2 to {_MOST} short ones.",
        where=model,
        remedy=f"copy the suite of docs/use/questions.md to fairness_suites/{suite}.yaml, and name its options there",
    )
