"""Metrics as a suite uses them: published functions, resampled by sets, with intervals and a fair ranker's value."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
