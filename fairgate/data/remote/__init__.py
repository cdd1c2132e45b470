"""Files that DVC tracks, fetched without running DVC: pointers are read as data, and every object is checked first."""

from fairgate.data.remote.fetching import Fetched, Progress, fetch, file_names
from fairgate.data.remote.place import read_file
from fairgate.data.remote.pointers import Tracked, is_pointer, read_pointers
from fairgate.data.remote.store import Store, open_store

__all__ = [
    "Fetched",
    "Progress",
    "Store",
    "Tracked",
    "fetch",
    "file_names",
    "is_pointer",
    "open_store",
    "read_file",
    "read_pointers",
]
