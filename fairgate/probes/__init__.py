"""Probes: how a model is queried, and the numbers per image that result."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
