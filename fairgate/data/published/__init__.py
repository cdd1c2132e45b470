"""Published datasets: what is known of each before anything is fetched, and how its files become a release."""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
