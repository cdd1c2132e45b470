from .called import IsolatedDetector as IsolatedDetector
from .called import IsolatedPainter as IsolatedPainter
from .called import IsolatedSeeing as IsolatedSeeing
from .called import isolated as isolated
from .called import isolated_towers as isolated_towers
