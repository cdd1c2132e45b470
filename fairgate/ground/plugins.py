"""Things that are known by name: the package's own, and those that installed packages add by an entry point."""

from __future__ import annotations

import functools
import importlib
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from fairgate.ground.errors import FairgateError
from fairgate.ground.hashing import digest, sha256_file

T = TypeVar("T")
Registered = TypeVar("Registered")


def entry_points(group: str) -> metadata.EntryPoints:
    """What installed packages register in a group."""
    entries: metadata.EntryPoints = _entry_points(tuple(sys.path)).select(group=group)
    return entries


@functools.lru_cache(maxsize=1)
def _entry_points(_: tuple[str, ...]) -> Any:
    """Of all groups: reading the metadata of every package of these folders takes longer than anything done with it."""
    return metadata.entry_points()


class Registry(Mapping[str, T], Generic[T]):
    """A look-up by name that imports the thing on first use.

    `with_modules` says which module registers each name of the package itself; other names come from the entry points
    `fairgate.KINDs` (or `group`) of installed packages, which are found once, and loaded one by one as their names are
    looked up.
    No package can take a built-in name. `check(name, thing)` returns what is registered, or raises TypeError; a thing
    with a name of its own, `name_of(thing)`, is registered by no other.
    """

    def __init__(
        self,
        kind: str,
        check: Callable[[str, Any], T],
        name_of: Callable[[Any], str] | None = None,
        group: str | None = None,
    ) -> None:
        self._kind, self._name_of, self._group = kind, name_of, group or f"fairgate.{kind}s"
        self._built_in: Mapping[str, str] = {}
        self._check = check
        self._found: dict[str, T] = {}
        self._entries: dict[str, metadata.EntryPoint] | None = None

    def with_modules(self, built_in: Mapping[str, str]) -> Self:
        """This registry, with the module that registers each built-in name; said where none of them imports it."""
        self._built_in, registered, self._found = built_in, self._found, {}
        for name, thing in registered.items():
            self.register(name, thing)
        return self

    def own(self) -> list[T]:
        """The package's own, in order."""
        return [self[name] for name in self._built_in]

    def packages_of(self, names: Iterable[str]) -> dict[str, str]:
        """The installed packages that things of these names are from, as `VERSION sha256:CODE`; not fairgate itself."""
        entries = self._plugins()  # by name, whatever registered it
        taken = [(entries[name], entries[name].dist) for name in names if name in entries]
        return {
            dist.name: f"{dist.version} sha256:{_code_digest(entry, dist)}"
            for entry, dist in taken
            if dist is not None and dist.name != "fairgate"
        }

    @contextmanager
    def blaming(self, name: str) -> Iterator[None]:
        """Where the thing of this name is a package's: its exceptions become a FairgateError that names the package."""
        try:
            yield
        except Exception as error:  # of any type: it is the code of others that runs
            entry = None if isinstance(error, FairgateError) else self._plugins().get(name)
            if entry is None:
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise FairgateError(
                f"the {self._kind} '{name}' of {_package(entry)} broke off: {type(error).__name__}: {error}.",
                where=f"entry point {entry.value}; {last.filename}:{last.lineno}",
                remedy="report it to those who make the package, or take another version of it",
            ) from error

    def register(self, name: str, thing: Any, *, module: str | None = None) -> None:
        """Make a thing known by its name; `module` is where it is made, of an instance. Raises FairgateError for a name
        that is taken."""
        module = module or getattr(thing, "__module__", None)
        if self._built_in.get(name, module) != module or name in self._found:
            raise FairgateError(
                f"{module} registers the {self._kind} '{name}', and there is one of this name.",
                where=f"entry point group {self._group}",
                remedy="give it another name",
            )
        checked = self._check(name, thing)
        if self._name_of is not None and (own := self._name_of(checked)) != name:
            raise TypeError(f"its name is '{own}'")
        self._found[name] = checked

    def add(self, thing: Registered) -> Registered:
        """Make a thing known by its own name; a decorator of classes. Raises FairgateError for a name that is taken."""
        assert self._name_of is not None
        self.register(self._name_of(thing), thing)
        return thing

    def __getitem__(self, name: str) -> T:
        if name not in self._found:
            if name in self._built_in:
                importlib.import_module(self._built_in[name])
            else:
                self._load(self._plugins()[name])
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._found or name in self._built_in or name in self._plugins()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._built_in, *self._plugins(), *self._found]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _plugins(self) -> dict[str, metadata.EntryPoint]:
        """Entry points by name. Raises FairgateError where two packages, or a package and this one, share a name."""
        if self._entries is None:
            entries: dict[str, metadata.EntryPoint] = {}
            for entry in entry_points(self._group):
                if entry.name in self._built_in or entries.setdefault(entry.name, entry).value != entry.value:
                    raise FairgateError(
                        f"the {self._kind} '{entry.name}' of {_package(entry)} has the name of another one.",
                        where=f"entry point {entry.value}",
                        remedy="give it another name, or uninstall the package",
                    )
            self._entries = entries
        return self._entries

    def _load(self, entry: metadata.EntryPoint) -> None:
        try:
            thing = entry.load()
            if entry.name not in self._found:  # the module may have registered it itself
                self.register(entry.name, thing)
        except Exception as error:  # of any type: it is the code of others that runs
            raise FairgateError(
                f"the {self._kind} '{entry.name}' of {_package(entry)} cannot be loaded: {error}.",
                where=f"entry point {entry.value}",
                remedy="mend or uninstall the package",
            ) from error


def _code_digest(entry: metadata.EntryPoint, dist: metadata.Distribution) -> str:
    """Hex SHA-256 of all files that a package installed, and of an imported top package's: a version is a claim."""
    top = sys.modules.get(entry.module.partition(".")[0])
    folders = [Path(folder) for folder in getattr(top, "__path__", ())]  # an editable installation lists no code
    listed = [file for file in dist.files or () if ".." not in file.parts and ".dist-info" not in file.parts[0]]
    installed = [Path(str(dist.locate_file(file))) for file in listed if file.suffix != ".pth"]
    code = [Path(str(top.__file__))] if top and top.__file__ and not folders else []
    files = {*installed, *code, *(path for folder in folders for path in folder.rglob("*"))}
    kept = sorted(path for path in files if path.suffix != ".pyc" and path.is_file())
    return digest([(path.name, sha256_file(path)) for path in kept])


def _package(entry: metadata.EntryPoint) -> str:
    return "an installed package" if entry.dist is None else f"the package '{entry.dist.name}'"
