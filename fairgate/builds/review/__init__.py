"""People look at a build: a local page, a blind sample, records of marks, figures for the card, and the release."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
