"""The contracts of pyproject.toml catch an import of any library in any package that may not have it.

A forbidden import is planted in the graph of imports, not in a file: one module of every package, one
library at a time.
"""

from __future__ import annotations

import re
import tomllib

import grimp
import pytest
from helpers.paths import ROOT
from importlinter.contracts.protected import ProtectedContract

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = [
    row for row in SETTINGS["tool"]["importlinter"]["contracts"] if row["type"] == "protected"
]
# installed name -> imported name, where they differ
IMPORTED = {"scikit-learn": "sklearn", "pillow": "PIL", "dask-jobqueue": "dask_jobqueue"}
FREE = {"numpy"}  # every package may import it
NEVER = {"dask_jobqueue", "mpmath"}  # none does: the first is for users' own cluster scripts


@pytest.fixture(scope="module")
def graph():
    roots = SETTINGS["tool"]["importlinter"]["root_packages"]
    return grimp.build_graph(*roots, include_external_packages=True)


def packages(graph) -> dict[str, str]:
    """Every package of the library, and the other two, each with one of its modules."""
    names = [*graph.find_children("attnscope"), "attnscope_claims", "attnscope_explorer"]
    return {name: max({name, *graph.find_descendants(name)}) for name in sorted(names)}


def kept(contract: dict, graph) -> bool:
    options = {key: value for key, value in contract.items() if key not in ("name", "type")}
    session = {"root_packages": SETTINGS["tool"]["importlinter"]["root_packages"]}
    return ProtectedContract(contract["name"], session, options).check(graph, False).kept


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda row: row["name"])
def test_a_planted_import_is_caught_in_every_package(contract, graph):
    assert kept(contract, graph)
    allowed = tuple(contract["allowed_importers"])
    caught = 0
    for package, module in packages(graph).items():
        if package in allowed:
            continue
        for library in contract["protected_modules"]:
            assert not graph.direct_import_exists(importer=module, imported=library)
            graph.add_import(
                importer=module, imported=library, line_number=1, line_contents="planted"
            )
            assert not kept(contract, graph), (package, library)
            graph.remove_import(importer=module, imported=library)
            caught += 1
    assert caught >= 10


def test_every_library_has_its_contract():
    project = SETTINGS["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"]]
    for name, extra in extras.items():
        if name not in ("dev", "docs", "all"):
            lines += extra
    names = {re.split(r"[\[><=]", line)[0] for line in lines} - {"attnscope"}
    imported = {IMPORTED.get(name, name) for name in names}
    protected = {library for row in CONTRACTS for library in row["protected_modules"]}
    assert imported - FREE - NEVER <= protected
