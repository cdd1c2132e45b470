from .loaded import IsolatedDetector as IsolatedDetector
from .loaded import IsolatedPainter as IsolatedPainter
from .loaded import IsolatedSeeing as IsolatedSeeing
from .loaded import isolated_classifier as isolated_classifier
from .loaded import isolated_towers as isolated_towers
