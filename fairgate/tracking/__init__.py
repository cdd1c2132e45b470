"""MLflow: one run per evaluation, a queue for the runs that a server did not take, baselines and models from it."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
