"""Studies: the papers' tables and figures, measured on one's own models; nothing here decides a gate."""

from fairgate.studies.contents import StudyContents, StudyPlace, finished

__all__ = ["StudyContents", "StudyPlace", "finished"]
