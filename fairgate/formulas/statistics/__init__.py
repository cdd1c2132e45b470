"""Uncertainty of metrics: intervals by resampling sets, paired tests at a margin, corrected p-values."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
