"""Baselines: where their records come from, and whether a run can be compared with them."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
