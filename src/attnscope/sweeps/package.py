"""Which source of attnscope a computation rests on, and whether it is the source that is loaded.

A module of the package rests on itself and on every module of the package its text imports, whether
at its top or inside a function, and so on; one that imports by a computed name rests on the whole
package. The hash of a module is that of its file.

A file says what is loaded only if it has not changed since. So `attnscope/__init__.py` has the
files looked at (inode, size, time of change) before any other module is read, and a file that looks
different later is refused.

notation: a room is a folder of the package.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from attnscope.errors import AttnscopeError

__all__ = ["file_hash", "package_files", "remember"]

PACKAGE = "attnscope"
ROOT = Path(__file__).resolve().parents[1]
_FROM = re.compile(
    rf"^\s*from\s+({PACKAGE}[\w.]*)\s+import\s+(\([^)]*\)|[^\n#]*)", re.MULTILINE
)
_IMPORT = re.compile(rf"^\s*import\s+({PACKAGE}[\w.]*)", re.MULTILINE)

# They import by name what a caller's text names, and nothing else: the name is followed where it is
# written.
LAZY_MODULES = (PACKAGE, f"{PACKAGE}.lazy_namespace")

Look = tuple[int, int, int]
_seen: dict[str, Look] = {}


def remember() -> None:
    """Look at every source file of the package (some milliseconds), once."""
    if not _seen:
        _seen.update({file: _look(file) for file in _sources()})


def package_files(modules: frozenset[str]) -> dict[str, str]:
    """Module -> hash of its file, for these modules and what they import in the package;
    refuses a changed file.
    """
    # the package as a whole, looked into by names that are not written out
    if PACKAGE in modules:
        modules = frozenset(map(_name, _sources()))
    hashes: dict[str, str] = {}
    todo = sorted(modules)
    while todo:
        module = todo.pop()
        path = _path(module)
        if module in hashes or path is None or module in LAZY_MODULES:
            continue
        hashes[module], needs = _read(path)
        if _look(path) != _seen.get(path):
            raise AttnscopeError(
                f"the source of {module} has changed since Python loaded it, so that no key can "
                "name what is computed; "
                "try again in a new process."
            )
        todo.extend(needs)
    return hashes


@cache  # a file that changes later is refused, so it is read once
def _read(path: str) -> tuple[str, tuple[str, ...]]:
    text = Path(path).read_text(encoding="utf-8")
    needs = set(_IMPORT.findall(text))
    for module, names in _FROM.findall(text):
        needs.add(module)
        needs |= {f"{module}.{name}" for name in re.findall(r"\w+", names)}
    if "import_module(" in text:
        needs |= set(map(_name, _sources()))
    found = {name for name in needs if _path(name) is not None}
    return file_hash(Path(path)), tuple(sorted(found))


def file_hash(path: Path) -> str:
    """sha256 of a text file, the same on every system's checkout."""
    import hashlib  # imported late: OpenSSL is a third of `import attnscope`

    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def _sources() -> list[str]:
    found = []
    for folder, inner, names in os.walk(ROOT):
        if "__pycache__" in inner:
            inner.remove("__pycache__")  # hundreds of compiled functions and no source
        found += [os.path.join(folder, name) for name in names if name.endswith(".py")]
    return found


def _name(path: str) -> str:
    parts = Path(path).relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _path(module: str) -> str | None:
    stem = ROOT.parent.joinpath(*module.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return str(path)
    return None


def _look(path: str) -> Look:
    facts = os.stat(path)
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
