from .console import write_png as write_png
from .console import writing as writing
