"""Packages that the base install leaves out, and the one sentence where such a package is absent.

The base install computes exact risks and gradients, trains in overlaps and fits bags. The rest comes
with extras (`pip install 'attnscope[own]'`), listed in PARTS. Code that needs one of them calls
`needs` at its public entrance, before any long work, and imports the package afterwards, inside the
function: a module of the library never fails to load because a package is absent.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from attnscope.errors import AttnscopeError

__all__ = ["PARTS", "NotInstalled", "absent", "installed", "needs"]


class Part(NamedTuple):
    """An optional package: its name in a sentence, and the extra of attnscope that installs it."""

    name: str
    extra: str


PARTS: dict[str, Part] = {
    "jax": Part("JAX", "own"),
    "jaxlib": Part("JAX", "own"),
    "optax": Part("Optax", "own"),
    "matplotlib": Part("Matplotlib", "figures"),
    "PIL": Part("Pillow", "figures"),  # comes with Matplotlib
    "jinja2": Part("Jinja2", "figures"),
    "markupsafe": Part("Jinja2", "figures"),  # comes with Jinja2
    "dash": Part("Dash", "explorer"),
    "flask": Part("Dash", "explorer"),  # comes with Dash
    "plotly": Part("Plotly", "explorer"),
    "dask": Part("Dask", "cluster"),
    "distributed": Part("Dask", "cluster"),
    "tokenizers": Part("tokenizers", "text"),
    "safetensors": Part("safetensors", "text"),
    "pyarrow": Part("pyarrow", "tables"),
    "h5py": Part("h5py", "files"),
}


class NotInstalled(AttnscopeError):
    """Something optional is not installed; the sentence says how to install it."""


def needs(module: str, of: str) -> None:
    """Refuse in one sentence, about `of`, unless the optional package `module` can be imported."""
    try:
        import_module(module)
    except ImportError as error:
        raise _refusal(PARTS[module], of, error) from None


def installed(module: str) -> bool:
    """Whether the optional package can be imported."""
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def absent(error: ImportError, of: str) -> NotInstalled | None:
    """The refusal that a failed import deserves, or None where no optional package is absent.

    >>> print(absent(ModuleNotFoundError("No module named 'jax'", name="jax"), "FullSgd"))
    FullSgd needs JAX: pip install 'attnscope[own]'.
    """
    part = PARTS.get((error.name or "").partition(".")[0])
    return None if part is None else _refusal(part, of, error)


def _refusal(part: Part, of: str, error: ImportError) -> NotInstalled:
    """A package that is there and fails to load says why."""
    broken = not isinstance(error, ModuleNotFoundError)
    why = f", which cannot be loaded ({' '.join(str(error).split())})" if broken else ""
    return NotInstalled(
        f"{of} needs {part.name}{why}: pip install 'attnscope[{part.extra}]'."
    )
