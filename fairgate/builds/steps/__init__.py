"""Steps of a dataset pipeline: each fills columns of counterfactual sets, or judges a set and explains every drop."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
