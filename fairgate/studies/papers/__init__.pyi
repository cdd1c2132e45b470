from .contract import Study as Study
from .contract import StudyContents as StudyContents
from .contract import StudyPlace as StudyPlace
from .contract import Typed as Typed
from .contract import register as register
from .registry import STUDIES as STUDIES
