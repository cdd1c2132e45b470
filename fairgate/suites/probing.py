"""Run a suite's probes on a model; digests of their settings say whether two runs can be compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import get_args

import numpy as np

from fairgate import probes
from fairgate.data import Index, TextColumn, give_back
from fairgate.ground.errors import CapabilityError, FairgateError, ModelError, listed
from fairgate.ground.hashing import digest
from fairgate.models import FAMILIES, Capability, Capable, ImageSource, Model, indistinct, require_capability, schemes
from fairgate.suites.schema import Suite

_NAMED = 8
"""Families and probes that a remedy lists."""


def _none_is_opened(uri: str, _: ImageSource) -> Model:
    raise ModelError("no model is opened here besides the judged one.", where=uri, remedy="judge by `fairgate check`")


OpenViews = Callable[[int], Model]
"""The same model, over so many views of each image."""


def _no_views(views: int) -> Model:
    raise ModelError(f"{views} views of each image are not made here.", remedy="judge by `fairgate check`")


def without_views(suite: Suite) -> Suite:
    """The suite with a single view of each image."""
    single = {name: probe.model_copy(update={"views": 1}) for name, probe in suite.probes.items()}
    return suite.model_copy(update={"probes": single})


def run_probes(
    model: Capable,
    index: Index,
    suite: Suite,
    open_instrument: probes.OpenInstrument = _none_is_opened,
    open_views: OpenViews = _no_views,
) -> dict[str, probes.ProbeScores]:
    """Every probe's answers: under the probe's name, those of an association under `probe[word]`. Of several views of
    each image, the mean of its answers.

    Raises CapabilityError for a model that lacks what a probe needs, or that reads different labels, subjects or words
    as the same text.
    """
    for name, probe in suite.probes.items():
        require_capability(
            model, probe.needed, f"probe '{name}' ({probe.kind})", partial(_instead, model, probe.needed)
        )
    scores, repeats = dict[str, probes.ProbeScores](), getattr(model, "repeats", None)
    with FAMILIES.blaming(model.uri.partition(":")[0]):
        require_distinct(model, suite, TextColumn.of(index.subject).distinct())
        for name, probe in suite.probes.items():
            several, asked, rows = probe.views > 1, model, index
            if several:
                asked = open_views(probe.views)
                rows = probes.taken_rows(index, np.repeat(np.arange(len(index)), probe.views))
            with probes.PROBES.blaming(probe.kind):
                of_probe = probe.run(name, asked, rows, open_instrument)
            _require_answers(name, probe, of_probe, len(rows.subject))
            if several:
                of_probe = {key: probes.mean_over_views(answers, probe.views) for key, answers in of_probe.items()}
            elif repeats is not None and repeats.any():
                more = {probes.LISTED_AGAIN: repeats}
                of_probe = {key: replace(answers, more={**answers.more, **more}) for key, answers in of_probe.items()}
            scores |= {key: answers.on_disk() for key, answers in of_probe.items()}
            give_back()
    return scores


def _instead(model: Capable, needed: Capability) -> str:
    """A remedy for a model that lacks what a probe needs: models that have it, and probes that it answers."""
    have = {scheme: family for scheme in FAMILIES if needed in (family := _family(scheme))[0]}
    own = next((scheme for scheme in schemes(model.uri) if _family(scheme)[0]), "")
    if own in have:  # by another of its URIs
        models = f"write the URI in the form that has it ({' or '.join(have[own][1])})"
    else:
        models = f"judge a model that has it ({listed([f'{scheme}:' for scheme in have], _NAMED)})"
    kinds = [kind for kind, probe in probes.PROBES.items() if probe.needs in model.capabilities]
    kinds += [
        f"{kind} with {setting}"
        for kind, probe in probes.PROBES.items()
        for setting, capability in probe.needs_where.items()
        if capability in model.capabilities
    ]
    others = f"use a probe that this one answers ({listed(kinds, _NAMED)})" if kinds else "leave the probe out"
    return f"{models}, or {others}"


def _family(scheme: str) -> tuple[frozenset[Capability], Sequence[str]]:
    """What a family's models can do, and its URIs; nothing of one that cannot be loaded, and of adapters, which can
    what their base can."""
    try:
        family = FAMILIES[scheme]
    except FairgateError:  # of a package that is broken: the message is about something else
        return frozenset(), ()
    own = family.capabilities != frozenset(get_args(Capability))
    return family.capabilities if own else frozenset(), family.forms


def _require_answers(name: str, probe: probes.Probe, answers: Mapping[str, probes.ProbeScores], images: int) -> None:
    shapes = {key: np.shape(scores.value) for key, scores in answers.items()}
    wanted = dict.fromkeys(probe.names(name), (images,))
    if shapes != wanted:
        raise ModelError(
            f"the probe '{name}' ({probe.kind}) returned values of the shapes {shapes}, where {wanted} is needed.",
            where=f"{type(probe).__module__}.{type(probe).__name__}.run",
            remedy="report it to those who make the package of the probe or of the model: a value is needed for each "
            "image",
        )


def probe_digests(suite: Suite) -> dict[str, str]:
    """By probe, its kind and a digest of its settings, with the words that they name by a list's name: runs whose
    digests differ are not compared."""
    digests = {}
    for name, probe in suite.probes.items():
        # exclude_none: a key that a probe does not use leaves its digest as it was before there was such a key
        settings = {"probe": probe.model_dump(mode="json", exclude_none=True), "metric_version": probes.METRIC_VERSION}
        if probe.published_words:
            settings["published_words"] = probe.published_words
        digests[name] = f"{probe.digest_kind}:{digest(settings)}"
    return digests


def prompt_count(suite: Suite, subjects: Sequence[str]) -> int:
    """Number of different texts that the suite's probes show a model."""
    return len({text for probe in suite.probes.values() for text in probe.texts(subjects)})


def require_distinct(model: Capable, suite: Suite, subjects: Sequence[str]) -> None:
    """Raises CapabilityError naming labels of one question, subjects or words that a model reads as the same text.

    Equal prompts inside one averaged query are only warned of: they weigh double.
    """
    for name, probe in suite.probes.items():
        queries = probe.queries(subjects)
        contests = {tuple(choice.prompts.items()): choice.prompts for choice in probe.choices(subjects)}
        for contest in contests.values():
            _require(model, name, "labels", {label: [prompt] for label, prompt in contest.items()})
        if queries:
            what = "words" if probe.ranked_words else "subjects"
            _require(model, name, what, {query.name: list(query.prompts) for query in queries})
        if several := [query.prompts for query in queries if len(query.prompts) > 1]:
            _warn_of_doubles(model, name, several)


def _require(model: Capable, probe: str, what: str, answers: dict[str, list[str]]) -> None:
    names = list(answers)
    if pairs := [
        f"'{names[first]}' and '{names[other]}'" for first, other in indistinct(model, list(answers.values()))
    ]:
        raise CapabilityError(
            f"the model reads the {what} {listed(pairs, more='more pairs')} as the same text.",
            where=f"probe '{probe}'",
            remedy="check the checkpoint's tokenizer (both may be unknown words to it, or cut off) or the table's "
            f"columns; else use {what} that the model can tell apart",
        )


def _warn_of_doubles(model: Capable, probe: str, queries: Sequence[Sequence[str]]) -> None:
    prompts = list(dict.fromkeys(prompt for query in queries for prompt in query))
    equal = {(prompts[first], prompts[other]) for first, other in indistinct(model, [[prompt] for prompt in prompts])}
    doubles = [
        f"'{first}' and '{other}'"
        for query in queries
        for first, other in combinations(query, 2)
        if (first, other) in equal or (other, first) in equal
    ]
    if doubles:
        shown = listed(list(dict.fromkeys(doubles)), more="more pairs")
        warnings.warn(
            f"probe '{probe}': the model reads the prompts {shown} as the same text, "
            "which weighs double in the averaged query",
            UserWarning,
            stacklevel=2,
        )
