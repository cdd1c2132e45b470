"""How much each dimension of an embedding tells about an attribute: the ranking by which CLIP-clip leaves some out.

Wang, Liu and Wang 2021 ("Are gender-neutral queries really gender-neutral?"), with their code's estimator: a smoothed
two-dimensional histogram.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics._checks import FloatArray, at_least_two, codes, finite
from fairgate.ground.errors import MetricError

_TINY = np.finfo(np.float64).eps


def mutual_information(features: ArrayLike, labels: ArrayLike, *, bins: int = 64, sigma: float = 1.0) -> FloatArray:
    """Mutual information of each feature with the label, in nats: (images, dim) and codes (images,) -> (dim,).

    From a histogram of `bins` x `bins`, smoothed by a Gaussian of `sigma` bins. Images with a negative code, undefined,
    are left out. As in Wang et al.'s code, codes are binned like numbers: of two groups that makes no difference, of
    more the order of codes does, and of many the smoothing mixes them. The estimate of an uninformative feature is
    above 0, the more the fewer images there are: compare dimensions with each other. Wang et al. 2021. Raises
    MetricError for features that are not finite, shapes that do not fit, fewer than two groups with an image, fewer
    than two bins, and a negative sigma.

    >>> found = mutual_information([[0.0, 0.3], [0.1, 0.9], [1.0, 0.3], [0.9, 0.9]], [0, 0, 1, 1], bins=8, sigma=0.5)
    >>> bool(found[0] > found[1])
    True
    """
    from scipy.ndimage import gaussian_filter

    values = finite("features", features, ("images", "dim")).astype(np.float64)
    group = codes("labels", labels, size=len(values), groups=None)
    values, group = values[group >= 0], group[group >= 0]
    if bins < 2 or sigma < 0:
        raise MetricError(
            f"{bins} bins smoothed by {sigma} are no histogram.",
            where="mutual_information",
            remedy="give at least 2 bins and a sigma of at least 0 (Wang et al. take 64 and 1)",
        )
    at_least_two(len(np.unique(group)))
    nats = []
    for feature in values.T:
        joint = gaussian_filter(np.histogram2d(feature, group, bins=bins)[0], sigma=sigma, mode="constant") + _TINY
        joint /= joint.sum()
        own = sum(float((share * np.log(share)).sum()) for share in (joint.sum(axis=0), joint.sum(axis=1)))
        nats.append(float((joint * np.log(joint)).sum()) - own)
    return np.array(nats)
