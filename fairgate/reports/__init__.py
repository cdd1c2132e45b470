"""Reports: the page, the comment, the table and the file that a run record is rendered as.

Pages of audits, histories and power, and the review page, are imported from their modules: they load more libraries.
"""

from fairgate.ground.lazy_face import lazy_face

__getattr__, __all__ = lazy_face(__name__, __file__)
