"""Uncertainty of metrics: intervals by resampling sets, paired tests at a margin, corrected p-values, power."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
