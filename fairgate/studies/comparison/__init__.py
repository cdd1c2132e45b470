"""Many models on one suite's dataset and probes, compared as the papers' tables do; nothing here decides a gate."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
