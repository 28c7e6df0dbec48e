"""Numbers in prose and in the comments of Python blocks, compared with what the code computes.

A number as written stands for every value that rounds to it: |value - written| is at most half a
unit of its last digit. In a block

    at.risk(task, at.Erf(0.1), oracle)    # 0.113498 ± 1e-15 (closed form)

each number of the comment with a decimal point, and a whole number that opens it, must be such a rounding of one of the numbers that
the statement yields: those of a result's fields, of an array, or of what it prints.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Any

import numpy as np

# with a decimal point: most whole numbers in comments count what the line itself shows
DECIMAL = re.compile(r"(?<![\w.^/-])-?(?:\d+\.\d+|\.\d+)(?:e[-+]?\d+)?(?![\w.]*\w)")
# a whole number that opens a comment as its answer: "# 3279: the inverse question"
ANSWER = re.compile(r"#\s*(\d+)(?=[:,;]|$| steps)")
PRINTED = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
DEEP = 4  # levels of results inside results
HALF = 0.5000001  # of the last digit, and the rounding of the comparison itself


def agrees(text: str, value: float) -> bool:
    """Whether the value is what was written, to its last digit."""
    plain = text.replace(",", "")
    digits, _, power = plain.partition("e")
    last = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return abs(float(plain) - value) <= HALF * last


def numbers_of(value: Any, depth: int = DEEP) -> Iterator[float]:
    """Every number that a result holds."""
    if isinstance(value, bool) or value is None or depth == 0:
        return
    if isinstance(value, int | float | np.number):
        yield float(value)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind in "iuf" and value.size <= 10_000:
            yield from map(float, value.ravel())
    elif isinstance(value, dict):
        for part in value.values():
            yield from numbers_of(part, depth - 1)
    elif isinstance(value, tuple | list):
        for part in value[:100]:
            yield from numbers_of(part, depth - 1)
        for name in ("excess", "log_excess"):  # of an Estimate
            if hasattr(value, name):
                yield from numbers_of(getattr(value, name), depth - 1)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from numbers_of(getattr(value, field.name, None), depth - 1)
        for name in ("excess", "log_excess"):
            if hasattr(value, name):
                yield from numbers_of(getattr(value, name), depth - 1)


def wrong_comments(block: str, names: dict[str, Any], page: str) -> list[str]:
    """Run the block; its lines with a comment that states what the line does not yield."""
    said = _comments(block)
    wrong = []
    for statement in ast.parse(block).body:
        value, printed = _done(statement, names, page)
        found = [*numbers_of(value), *map(float, PRINTED.findall(printed))]
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
            comment = said.get(line, "")
            stated = DECIMAL.findall(comment) + ANSWER.findall(comment)
            missing = [text for text in stated if not any(agrees(text, x) for x in found)]
            if missing:
                near = [
                    min(found, key=lambda x: abs(x - float(t)), default=None) for t in missing
                ]
                wrong.append(f"{page}: {said[line]}: {missing}, nearest {near}")
    return wrong


def _comments(block: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(block).readline)
    return {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}


def _done(statement: ast.stmt, names: dict[str, Any], page: str) -> tuple[Any, str]:
    """The value of a statement (of an assignment: what was assigned), and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if isinstance(statement, ast.Expr):
            code = compile(ast.Expression(statement.value), page, "eval")
            return eval(code, names), out.getvalue()
        exec(compile(ast.Module([statement], []), page, "exec"), names)
    targets = [t.id for t in getattr(statement, "targets", []) if isinstance(t, ast.Name)]
    return [names[name] for name in targets], out.getvalue()
