from .api import Comparison as Comparison
from .api import Run as Run
from .api import RunRecord as RunRecord
from .api import check as check
from .api import compare as compare
from .api import import_images as import_images
from .api import load_suite as load_suite
from .api import open_dataset as open_dataset
from .measures import Metric as Metric
from .measures import register as register_metric  # noqa: F401 - given by this name
from .models import Model as Model
from .models import ModelFamily as ModelFamily
from .models import register as register_model  # noqa: F401 - given by this name
from .probes import Probe as Probe
from .probes import register as register_probe  # noqa: F401 - given by this name
from .recipes import Recipe as Recipe
from .recipes import register as register_recipe  # noqa: F401 - given by this name
from .version import __version__ as __version__
