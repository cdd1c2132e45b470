"""How small a regression a suite can see at its present size, and how many sets a smaller one would take."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
