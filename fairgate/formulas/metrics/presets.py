"""The ranking conventions of four papers, each under its name: what k, against which shares, with which prompts.

>>> import numpy as np
>>> measured = HOWARD.evaluate([[0.9, 0.8, 0.1, 0.0]], np.array([0, 0, 1, 1]), groups=2)
>>> {name: value.round(4).tolist() for name, value in measured.items()}
{'max_skew@2': [0.6931]}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics._checks import FloatArray, finite
from fairgate.formulas.metrics._counts import Zero
from fairgate.formulas.metrics._ranking import Desired
from fairgate.formulas.metrics.retrieval import bias_at_k, max_skew_at_k, ndkl_at_k, normalized_entropy_at_k
from fairgate.ground.errors import MetricError

PromptAverage: TypeAlias = Literal["none", "mean_unit", "unit_mean_unit"]
"""How prompts of one query become one text embedding: they stay apart; their mean, scaled to unit length; or the mean
of unit vectors, scaled again (open_clip's zero-shot code)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One paper's convention for ranking metrics. The fields are plain, and `evaluate` measures what the paper does.

    Vary one with `dataclasses.replace(BERG, max_skew_k=(100,))`.
    """

    name: str
    source: str
    desired: Desired = "dataset"
    zero: Zero = "neg_inf"
    max_skew_k: tuple[int | Literal["groups"], ...] = ()
    ndkl_k: tuple[int, ...] = ()
    bias_k: tuple[int, ...] = ()
    entropy_k: tuple[int, ...] = ()
    prompts: tuple[str, ...] = ()
    prompt_average: PromptAverage = "none"
    note: str = ""

    def evaluate(self, scores: ArrayLike, labels: ArrayLike, *, groups: int) -> dict[str, FloatArray]:
        """Every metric of the preset by name and k, e.g. "max_skew@25" -> (queries,); the papers report means of these.

        Shapes and errors as in `fairgate.formulas.metrics.retrieval`: a gallery smaller than one of the k is refused.
        """
        measured: dict[str, FloatArray] = {}
        for each in self.max_skew_k:
            k = groups if each == "groups" else each
            measured[f"max_skew@{k}"] = max_skew_at_k(
                scores, labels, k, groups=groups, desired=self.desired, zero=self.zero
            )
        for k in self.ndkl_k:
            measured[f"ndkl@{k}"] = ndkl_at_k(scores, labels, k, groups=groups, desired=self.desired)
        for k in self.bias_k:
            measured[f"bias@{k}"] = bias_at_k(scores, labels, k, groups=groups)
        for k in self.entropy_k:
            measured[f"normalized_entropy@{k}"] = normalized_entropy_at_k(scores, labels, k, groups=groups)
        return measured


def average_prompts(embeddings: ArrayLike, average: PromptAverage) -> FloatArray:
    """Text embeddings of one query's prompts (prompts, dim) -> (queries, dim): one row, or for "none" all as they are.

    Raises MetricError for embeddings that are not finite, and where there is no direction to scale.

    >>> average_prompts([[3.0, 0.0], [0.0, 1.0]], "unit_mean_unit").round(4)
    array([[0.7071, 0.7071]])
    """
    rows = finite("embeddings", embeddings, ("prompts", "dim")).astype(np.float64)
    if average == "none":
        return rows
    if average not in ("mean_unit", "unit_mean_unit"):
        raise MetricError(
            f"average is '{average}'.", where="average", remedy="use 'none', 'mean_unit' or 'unit_mean_unit'"
        )
    if average == "unit_mean_unit":
        rows = _unit(rows)
    return _unit(rows.mean(axis=0, keepdims=True))


def _unit(rows: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if (lengths == 0).any():
        raise MetricError(
            "an embedding of length 0 has no direction.",
            where=f"embeddings: first at row {int(np.argmin(lengths))}",
            remedy="leave the prompt out, or find out why the model returns zeros (or prompts that cancel) for it",
        )
    unit: FloatArray = rows / lengths
    return unit


HOWARD = Preset(
    name="HOWARD",
    source="Howard et al. 2023, Probing intersectional biases in vision-language models with counterfactual examples, "
    "section 3 (paper 3)",
    max_skew_k=("groups",),
    prompts=("A {subject}", "A photo of a {subject}", "A picture of a {subject}", "An image of a {subject}"),
    prompt_average="mean_unit",
    note="Groups are the pairs of two attributes, K = |A1| x |A2| and the gallery all images of one subject, so that a "
    "complete gallery gives ln 1 ... ln K only, and a perfectly fair ranker already a median of 0.69 (K = 8) or 1.10 "
    "(K = 12). Prompts do not name the attributes; their embeddings are averaged over the prefixes, then scaled. For "
    "bounds choose a larger k.",
)
BERG = Preset(
    name="BERG",
    source="Berg et al. 2022, A prompt array keeps the bias away; code oxai/debias-vision-lang",
    zero="clamp_1_over_k",
    max_skew_k=(1000,),
    ndkl_k=(1000,),
    prompts=(
        "This is the face of a {concept} person",
        "This is a photo of a {concept} person",
        "This person is {concept}",
        "A {concept} person",
        "A {concept} individual",
        "This individual is {concept}",
    ),
    note="Its code reports desired='uniform' (eq_opp) beside 'dataset' (dem_par), takes k also as a share of the "
    "gallery (the whole of it unless told: there, dem_par MaxSkew is 0 by construction), counts ties at the cut beyond "
    "k, and gives a group absent from the top k the share 1/k, which under 'dataset' can become the maximum.",
)
GENSYNTH = Preset(
    name="GENSYNTH",
    source="Smith et al. 2023, Balancing the picture, section 3 (paper 5); Bias@K after Wang et al. 2021",
    zero="skip",
    max_skew_k=(25, 100),
    bias_k=(5, 10),
    note="Group 0 is perceived male, 1 perceived female, -1 undefined (captions name both, or neither). Queries are "
    "COCO captions with their gendered words neutralised. Undefined images stay in the ranking for Bias@K and leave it "
    "for MaxSkew. Bias@K is signed: opposite biases cancel in its mean.",
)
SO_B_IT = Preset(
    name="SO_B_IT",
    source="Hamidieh et al. 2024, Identifying implicit social biases in vision-language models (paper 4)",
    desired="uniform",
    max_skew_k=(100,),
    entropy_k=(100,),
    prompts=("a photo of a {adjective} person", "a photo of a {noun}", "a photo of a person who is {activity}"),
    note="Entropy over all declared groups, and a category's value the mean over its words; FairFace is balanced, so "
    "that shares are held against equal ones. MaxSkew is not in the paper: it says which way the shares lean.",
)
