"""Models that make and perceive images: what each role does, and which module opens it."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
