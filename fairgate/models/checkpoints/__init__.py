"""Checkpoints: files that are hashed before anything loads them, their weights, and the device they run on."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
