"""Models that are judged: a model URI and images in, answers out, with embeddings cached by content."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
