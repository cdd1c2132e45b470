"""Every record that a page is made of: of a run here, the others in `comparison`, `power` and `history`."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
