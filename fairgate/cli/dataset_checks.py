"""What `fairgate dataset bias` prints: paper 5's checks of a dataset, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from fairgate.factory.dataset_checks import DatasetChecks, Spread

SHOWN_WORDS = 6


def lines(found: DatasetChecks) -> Iterator[str]:
    """One finding a line; AUCs first, then what a model makes of the edits, clusters, controls."""
    yield f"photographs                           {found.photographs:,}"
    yield f"original gender from the background   AUC {found.background_auc:.3f}  (0.5 is guessing)"
    yield f"original gender from neutral captions AUC {found.caption_auc:.3f}"
    for group, share in found.zero_shot_accuracy.items():
        yield f"taken for {group:27s} {share:.1%}"
    for k, share in found.recall.items():
        yield f"edited caption finds its image, R@{k:<3d} {share:.1%}"
    for model, figures in found.controls.items():
        yield f"{model:37s} " + "  ".join(f"{name} {_spread(each)}" for name, each in figures.items())
    yield "clusters of neutral captions: size, men above the share in all, words that stand out"
    for cluster in found.clusters:
        yield f"{cluster.size:6,d}  {cluster.over_representation:+6.1%}  {', '.join(cluster.words[:SHOWN_WORDS])}"


def _spread(figure: Spread) -> str:
    """0.144, or 0.144 ± 0.003 over draws."""
    return f"{figure.mean:.3f}" + ("" if figure.deviation is None else f" ± {figure.deviation:.3f}")
