"""The top-level definitions of one file: which statements bind a name, and what they name in turn."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Container, Iterator
from types import CodeType
from typing import Any

__all__ = ["Definitions", "changed_names", "names_used", "syntax_tree"]

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def syntax_tree(content: bytes, with_main: bool = False) -> ast.Module | None:
    """The tree of a source without docstrings, and without the block of the main guard unless
    asked for; None if this is not Python.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    guards = [one for one in tree.body if isinstance(one, ast.If) and _is_main(one.test)]
    tree.body = [one for one in tree.body if one not in guards]
    if with_main:  # a function defined there may name what is defined there
        tree.body += [one for guard in guards for one in guard.body]
    return tree


def _is_main(test: ast.expr) -> bool:
    return ast.unparse(test) in ("__name__ == '__main__'", "'__main__' == __name__")


class Definitions:
    """Statements by the names they bind or change."""

    def __init__(self, content: bytes) -> None:
        self.tree = syntax_tree(content, with_main=True) or ast.Module([], [])
        self.binding: dict[str, list[ast.stmt]] = {}
        self.star_imports: list[ast.stmt] = []
        imported: set[str] = set()
        for node in _one_import_each(self.tree.body):
            table = _table(node)
            for symbol in table.get_symbols():
                if symbol.is_assigned() or symbol.is_imported():
                    self.binding.setdefault(symbol.get_name(), []).append(node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported |= set(table.get_identifiers())
                if any(alias.name == "*" for alias in node.names):
                    self.star_imports.append(node)
        for node in self.tree.body:
            for name in changed_names(node, imported):
                if name in self.binding and node not in self.binding[name]:
                    self.binding[name].append(node)

    def needed(self, names: set[str]) -> dict[str, list[ast.stmt]]:
        """The statements behind these names, and behind the names that they use."""
        chosen: dict[str, list[ast.stmt]] = {}
        todo = sorted(names)
        while todo:
            name = todo.pop()
            if name in self.binding and name not in chosen:
                chosen[name] = self.binding[name]
                todo += [one for node in chosen[name] for one in names_used(node)]
        return chosen

    def function_at(self, code: CodeType) -> Any:
        """The function or lambda that was compiled to this code; None if there is not exactly one."""
        found = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, FUNCTIONS)
            and _first_line(node) == code.co_firstlineno
            and getattr(node, "name", "<lambda>") == code.co_name
        ]
        if len(found) > 1:  # lambdas of one line differ by their columns
            # the first instruction has no place of its own
            spots = [
                (line, column) for line, _, column, end in code.co_positions() if line and end
            ]
            found = [
                node
                for node in found
                if isinstance(node, ast.Lambda)
                and spots
                and (node.body.lineno, node.body.col_offset) == min(spots)
            ]
        return found[0] if len(found) == 1 else None


def names_used(node: Any) -> set[str]:
    """The global names that a statement, or a lambda, refers to."""
    tables = [_table(node)]
    names: set[str] = set()
    for table in tables:
        tables += table.get_children()
        is_top = table.get_type() == "module"
        names |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (is_top or symbol.is_global())
        }
    return names


def _table(node: ast.AST) -> symtable.SymbolTable:
    try:
        return symtable.symtable(ast.unparse(node), "", "exec")
    except SyntaxError:  # what only a notebook may say: await outside of a function
        return symtable.symtable("", "", "exec")


def _one_import_each(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements, with an import of several names as several imports."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (ast.Import([alias]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                ast.ImportFrom(node.module, [alias], node.level) for alias in node.names
            )
        else:
            yield node


def changed_names(node: ast.stmt, imported: Container[str] = ()) -> Iterator[str]:
    """Names whose values the statement changes: `TABLE["a"] = 1`, `ROWS.append(1)`.

    Calls of an imported module are left out: `at.sweep(...)` changes nothing.
    """
    if isinstance(node, DOCUMENTED):
        return
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute | ast.Subscript) and not isinstance(
            one.ctx, ast.Load
        ):
            yield _root_name(one)
        elif (
            isinstance(one, ast.Expr)
            and isinstance(one.value, ast.Call)
            and isinstance(one.value.func, ast.Attribute)
            and (name := _root_name(one.value.func)) not in imported
        ):
            yield name


def _root_name(node: Any) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return getattr(node, "id", "")


def _first_line(node: Any) -> int:
    """Where the code of a function begins: at its first decorator."""
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
