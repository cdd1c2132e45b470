"""Suites: strict YAML in, typed checks out, every check measured and decided together."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
