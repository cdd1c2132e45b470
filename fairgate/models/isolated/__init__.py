"""Models that a library opens in a process without network, programs or files of others."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
