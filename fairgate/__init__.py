"""fairgate: a regression test gate for the fairness of vision models."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)


def __dir__() -> list[str]:
    return sorted(__all__)
