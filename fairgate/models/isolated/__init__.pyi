from .child import IsolatedDetector as IsolatedDetector
from .child import IsolatedPainter as IsolatedPainter
from .child import IsolatedSeeing as IsolatedSeeing
from .child import isolated as isolated
from .child import isolated_towers as isolated_towers
