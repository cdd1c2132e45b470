"""`fairgate doctor`: whether a gate run is possible here, whether anything disables it, and whether bias fails it."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
