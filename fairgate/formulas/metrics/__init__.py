"""Scores in, numbers out: one value per set, query or group first, a summary second. Pure functions on NumPy arrays."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
