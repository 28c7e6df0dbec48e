"""The source that a swept function rests on, found in files and never in what is loaded.

The fingerprint of a function has these parts:
  - the top-level definitions of its own file that it names, directly or through one another;
  - every file of the user's own that these import, as a whole, and what such a file imports;
  - name and version of every installed distribution that is imported on the way;
  - the files of `depends`, and the minor version of Python, whose syntax trees differ.
Code counts as its syntax tree: comments, docstrings and the block under `if __name__ == "__main__"`
do not. A file is the user's own if no installed distribution lists it and it is not Python's; an
editable install is therefore the user's own. Of attnscope its version counts. A package that
imports by computed names (`__getattr__`, `import_module`) counts with all its files.

A function without a file (notebook) or inside another function counts with its own source; what it
takes from there must be plain data, arrays, functions, classes or modules.

What is loaded has one use: a file that differs from what Python loaded from it is refused
(`edited_files`), because the key would name code that does not run.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib.util
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from attnscope.errors import AttnscopeError, bad
from attnscope.sweeps.definitions import Definitions, names_used, syntax_tree
from attnscope.sweeps.edited_files import refuse_edited
from attnscope.sweeps.text import canonical, digest, plain

__all__ = ["Fingerprint", "code_version", "fingerprint"]

OURS = ("attnscope", "attnscope_claims", "attnscope_explorer")
MAIN = ("__main__", "__mp_main__")  # the second is what a worker calls the parent's script
# a package with one of these imports what its text does not name
COMPUTED_IMPORTS = (b"__getattr__", b"import_module", b"__import__")
SITE_FOLDERS = ("site-packages", "dist-packages")
NUMBER_KINDS = set("biufcMm")  # of arrays whose bytes are their content
DEPENDS = "depends:"  # begins the name of the part of a data file


@dataclass(frozen=True)
class Fingerprint:
    """The hash of the source, and its parts by name, to say which of them differ."""

    hash: str
    parts: dict[str, str]

    def differences(self, function: Callable[..., Any], is_imported: bool) -> list[str]:
        """Names of the parts that are others in this process.

        is_imported: whether this process imported the function. What came by value has no file
        here, but what it imports has.
        """
        here = _Walk(may_lack_source=True)
        if is_imported:
            here.function(function)
        else:
            for name in self.parts:
                if ":" not in name:
                    here.module(name)
        names = here.parts.keys() | (self.parts.keys() if is_imported else set())
        return sorted(
            name
            for name in names
            if not name.startswith(DEPENDS) and here.parts.get(name) != self.parts.get(name)
        )


def fingerprint(
    function: Callable[..., Any],
    version: str = "",
    depends: Sequence[str | os.PathLike[str]] = (),
) -> Fingerprint:
    """Of this function. Some milliseconds: a sweep does it once, not once per cell.

    version: stands in for source that cannot be read.
    """
    walk = _Walk(may_lack_source=bool(version))
    walk.function(function)
    walk.parts |= {f"{DEPENDS}{path}": _content(path) for path in _paths(depends)}
    return Fingerprint(digest(canonical(walk.parts)), walk.parts)


def code_version(modules: Iterable[str]) -> str:
    """Hash of the source of the named modules, by the same rule; of the user's own packages every
    file counts.
    """
    if isinstance(modules, str):
        must, hint = "a list of names", f"code_version([{modules!r}])"
        raise bad("modules", "code_version", must, modules, hint)
    walk = _Walk()
    for name in modules:
        walk.module(name)
        walk.whole_package(name)
        if not {name, name.partition(".")[0]} & walk.parts.keys():
            raise bad("a module", "code_version", "importable and written in Python", name)
    return digest(canonical(walk.parts))


class _Walk:
    """Parts described so far, and the modules and functions that have been met."""

    def __init__(self, may_lack_source: bool = False) -> None:
        self.may_lack_source = may_lack_source
        self.parts = {"python:version": "{}.{}".format(*sys.version_info)}
        self.users: set[str] = set()  # modules that are the user's own
        self.met: set[Any] = set()  # functions, and names of modules

    def is_new(self, thing: Any) -> bool:
        new = thing not in self.met
        self.met.add(thing)
        return new

    def put(self, label: str, text: str) -> None:
        """A part; of several with one name (lambdas of one line) each."""
        value, number, name = digest(text), 1, label
        while self.parts.setdefault(name, value) != value:
            number += 1
            name = f"{label}#{number}"

    # functions

    def function(self, function: Any) -> None:
        """A function, and what it wraps (functools.wraps, lru_cache, jax.jit, Numba)."""
        while function is not None and self.is_new(function):
            if isinstance(function, FunctionType):
                self.with_code(function, function.__code__)
            elif isinstance(getattr(function, "__module__", None), str):
                self.module(function.__module__)
            inner = getattr(function, "__wrapped__", None)
            function = getattr(function, "py_func", inner)

    def with_code(self, function: Any, code: CodeType) -> None:
        space = function.__globals__
        module = str(space.get("__name__", "__main__"))
        name = code.co_qualname
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        # another than the module's: made by exec, or in a notebook
        same = os.path.basename(file) == os.path.basename(code.co_filename)
        has_file = same and os.path.isfile(file)
        if has_file and not _is_users(module, Path(file)):
            self.module(module)  # it may wrap one of the user's
            for value in _closure(function).values():
                if isinstance(value, FunctionType):
                    self.function(value)
            return
        # what Python keeps for tracebacks: the cell of a notebook
        kept = "" if has_file else "".join(linecache.getlines(code.co_filename, space))
        text = Path(file).read_bytes() if has_file else kept.encode()
        found = Definitions(text)
        top = name.partition(".")[0]
        label = "__main__" if module in MAIN else module
        if "<" not in name and top in found.binding:
            names: set[str] = {top}
        else:
            node = found.function_at(code)
            if node is None:
                self.lacks_source(function, "its source cannot be read")
                names = set(code.co_names)
            else:
                self.put(f"{label}:{name}", ast.dump(node))
                names = names_used(node) - set(code.co_freevars)
                self.imports([node], space.get("__package__"))
            taken = {**_closure(function), **_defaults(function)}
            for one, value in taken.items():
                self.value(value, f"{label}:{name} {one}", function)
        chosen = found.needed(names)
        for one, statements in chosen.items():
            self.put(f"{label}:{one}", canonical([ast.dump(node) for node in statements]))
        nodes = [node for statements in chosen.values() for node in statements]
        self.imports([*nodes, *found.star_imports], space.get("__package__"))
        if has_file:
            if chosen:  # else there is nothing to compare, or the file is no Python by now
                refuse_edited(module, text, set(chosen))
            return
        for one in sorted(names.union(*map(names_used, nodes)) - found.binding.keys()):
            if one in space and not hasattr(builtins, one):
                self.value(space[one], f"{label}:{one}", function)

    def wrapper(self, function: Any, module: str) -> None:
        """A function of a distribution that may wrap one of the user's."""
        self.module(module)
        for value in _closure(function).values():
            if isinstance(value, FunctionType):
                self.function(value)

    def value(self, value: Any, label: str, function: Any) -> None:
        """A value that the function takes from where it was made, by content."""
        if isinstance(value, ModuleType):
            self.module(value.__name__)
        elif isinstance(value, type):
            self.type(value, function)
        elif callable(value) and _is_named(value):
            self.put(label, f"{value.__module__}.{value.__name__}")
            self.function(value)
        elif getattr(getattr(value, "dtype", None), "kind", "O") in NUMBER_KINDS:
            facts = f"{value.dtype.str} {value.shape}".encode()
            self.put(label, hashlib.sha256(facts + value.tobytes()).hexdigest())
        else:
            try:
                self.put(label, canonical(plain(value, label)))
            except AttnscopeError:
                self.lacks_source(
                    function, f"it uses {re.split('[: ]', label)[-1]}, an object"
                )

    def type(self, kind: type, function: Any) -> None:
        """A class: by its module, or where that has no file by the cell with its methods."""
        self.module(kind.__module__)
        methods = [one for one in vars(kind).values() if isinstance(one, FunctionType)]
        for one in methods:
            self.function(one)
        if kind.__module__ in MAIN and not methods:
            self.lacks_source(function, f"it uses the class {kind.__name__}")

    def lacks_source(self, function: Any, why: str) -> None:
        if not self.may_lack_source:
            raise bad(
                "function",
                "sweep",
                "one whose code can be found in files",
                f"{getattr(function, '__qualname__', function)} ({why})",
                'version="1", to be changed with the code',
            )

    # modules

    def imports(self, nodes: list[Any], package: str | None) -> None:
        """What import statements in these trees name."""
        found = [one for node in nodes for one in ast.walk(node)]
        attributes = {one.attr for one in found if isinstance(one, ast.Attribute)}
        for one in found:
            if isinstance(one, ast.Import):
                names = [alias.name for alias in one.names]
            elif isinstance(one, ast.ImportFrom):
                base = "." * one.level + (one.module or "")
                with suppress(ImportError):  # relative, and in no package
                    base = importlib.util.resolve_name(base, package) if one.level else base
                names = [base, *(f"{base}.{alias.name}" for alias in one.names)]
            else:
                continue
            for name in names:
                self.module(name)
                self.submodules(name, attributes)

    def submodules(self, name: str, attributes: set[str]) -> None:
        """Modules of the user's package that code reaches by a dot, imported elsewhere."""
        for one in sorted(attributes) if name in self.users else ():
            self.module(f"{name}.{one}")
            self.submodules(f"{name}.{one}", attributes)

    def module(self, name: str) -> None:
        """A module with the packages it is in: as a file of the user's own, or as a version."""
        parent = name.rpartition(".")[0]
        if parent:
            self.module(parent)
        if not self.is_new(name) or name in MAIN or (parent and parent not in self.users):
            return
        if name in OURS:
            self.parts["attnscope"] = vars(sys.modules["attnscope"])["__version__"]
            return
        place = _locate(name)
        if place.path is None:
            if place.folders:
                self.users.add(name)  # a package without a file of its own
        elif owner := _distribution(place.path.resolve(), name):
            self.parts[name] = owner
        elif not _is_pythons(place.path.resolve()):
            self.users.add(name)
            self.users_file(name, place.path, name if place.folders else parent)

    def users_file(self, name: str, path: Path, package: str) -> None:
        content = path.read_bytes()
        tree = syntax_tree(content)
        if tree is None:  # compiled, or not Python
            self.parts[name] = hashlib.sha256(content).hexdigest()
            return
        self.parts[name] = digest(ast.dump(tree))
        refuse_edited(name, content, file=path)
        self.imports([tree], package)
        if package and any(word in content for word in COMPUTED_IMPORTS):
            self.whole_package(package)

    def whole_package(self, name: str) -> None:
        """Every module in a package of the user's own."""
        for folder in _locate(name).folders if name in self.users else ():
            for path in sorted(folder.rglob("*.py")):
                inner = path.relative_to(folder).with_suffix("").parts
                self.module(".".join([name, *inner]).removesuffix(".__init__"))


@dataclass(frozen=True)
class _Place:
    """Where a module is: its file, and the folders of a package."""

    path: Path | None = None
    folders: tuple[Path, ...] = ()


def _locate(name: str) -> _Place:
    """Where Python would find the module; nothing is imported."""
    parent, _, last = name.rpartition(".")
    if not parent:
        return _top_level(name)
    for folder in _locate(parent).folders:
        inner = folder / last
        if (inner / "__init__.py").is_file():
            return _Place(inner / "__init__.py", (inner,))
        for ending in (".py", *EXTENSION_SUFFIXES):
            if inner.with_name(f"{last}{ending}").is_file():
                return _Place(inner.with_name(f"{last}{ending}"))
        if inner.is_dir():
            return _Place(None, (inner,))
    return _Place()


def _top_level(name: str) -> _Place:
    for finder in sys.meta_path:
        spec = None
        with suppress(Exception):  # somebody else's finder
            spec = finder.find_spec(name, None)
        if spec is not None:
            file = Path(spec.origin) if spec.origin and os.path.isfile(spec.origin) else None
            folders = tuple(map(Path, spec.submodule_search_locations or ()))
            return _Place(file, folders)
    return _Place()


@cache
def _distribution(path: Path, top: str) -> str:
    """Name and version of the installed distribution that lists the file, or ""."""
    for root in {Path(entry or ".").resolve() for entry in sys.path} & set(path.parents):
        listed = path.relative_to(root).as_posix()
        # the likely ones first: those named like the module
        for info in sorted(
            root.glob("*-info"), key=lambda one: top.lower() not in one.name.lower()
        ):
            if _lists(info, listed, top):
                return info.stem.replace("-", " ")
    return ""


def _lists(info: Path, file: str, top: str) -> bool:
    with suppress(OSError):
        return f"\n{file}," in "\n" + (info / "RECORD").read_text(encoding="utf-8")
    if info.parent.name in SITE_FOLDERS:  # installed by a system that keeps no such list
        with suppress(OSError):
            return top in (info / "top_level.txt").read_text(encoding="utf-8").split()
    return False


def _is_pythons(path: Path) -> bool:
    libraries = {
        Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")
    }
    return bool(libraries & set(path.parents)) and not set(SITE_FOLDERS) & set(path.parts)


def _is_users(module: str, file: Path) -> bool:
    top = module.partition(".")[0]
    path = file.resolve()
    return top not in OURS and not _distribution(path, top) and not _is_pythons(path)


def _is_named(value: Any) -> bool:
    """Whether its name says what is called: no method of an object, no object with __call__."""
    owner = getattr(value, "__self__", None)
    named = hasattr(value, "__name__") and isinstance(value.__module__, str)
    return named and (owner is None or isinstance(owner, ModuleType))


def _closure(function: Any) -> dict[str, Any]:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    filled = {}
    for name, cell in cells.items():
        with suppress(ValueError):  # not filled yet
            filled[name] = cell.cell_contents
    return filled


def _defaults(function: Any) -> dict[str, Any]:
    positional = function.__defaults__ or ()
    numbered = {f"default {i}": value for i, value in enumerate(positional)}
    return {**numbered, **(function.__kwdefaults__ or {})}


def _paths(depends: Any) -> Iterator[Path]:
    if isinstance(depends, str | os.PathLike) or not isinstance(depends, Sequence):
        raise bad("depends", "sweep", "a list of paths", depends, 'depends=["data.csv"]')
    for path in map(Path, depends):
        if not path.exists():
            raise bad("depends", "sweep", "paths of files or folders", str(path))
        yield path


def _content(path: Path) -> str:
    """Hash of a file, or of all files in a folder with their names."""
    if path.is_dir():
        inside = sorted(one for one in path.rglob("*") if one.is_file())
        return digest(
            canonical([[one.relative_to(path).as_posix(), _content(one)] for one in inside])
        )
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
