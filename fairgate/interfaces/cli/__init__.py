"""The `fairgate` command: each module parses one group of commands, calls the rooms below, and prints."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
