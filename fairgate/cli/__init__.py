"""The `fairgate` command: each module parses one group of commands, calls the floors below, and prints."""

from fairgate.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
