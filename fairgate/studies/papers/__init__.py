"""Studies: the papers' tables and figures, measured on one's own models; nothing here decides a gate."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
