from .finding import Finding as Finding
from .finding import healthy as healthy
from .run import SelfTestOptions as SelfTestOptions
from .run import examine as examine
