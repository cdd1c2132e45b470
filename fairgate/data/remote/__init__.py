"""Files that DVC tracks, fetched without running DVC: pointers are read as data, and every object is checked first."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
