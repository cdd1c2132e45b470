"""The gate: suite + checkpoint + baseline -> run record -> sinks. The only evaluator there is.

pytest and the command line both come here, so that they cannot disagree.
"""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
