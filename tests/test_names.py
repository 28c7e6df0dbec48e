"""Names and words of the three packages are plain English; every exception has a reason.

Three rules, each tried on a planted example as well. A module constant has one value within its
subpackage. A private function is no bare participle or adverb (`_told`, `_apart`): such a name does
not say what comes out. Some words of an older vocabulary mean nothing to a reader who does not know
it, or a common word says the same.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.paths import ROOT

SRC = ROOT / "src"
PACKAGES = ("attnscope", "attnscope_claims", "attnscope_explorer")
ONE_VALUE = ("theory", "numerics", "estimators", "dynamics", "tasks")

# Forms that an ending does not show. Words that are a base form as well (read, run, set, cut, put)
# are left to a reader's judgement.
IRREGULAR_PARTICIPLES = re.compile(
    r"begun|bound|bought|brought|built|chosen|done|drawn|driven|fallen|fed|felt|forgotten|"
    r"found|frozen|given|gone|got|grown|heard|held|hidden|kept|known|laid|led|left|lent|lost|"
    r"made|meant|met|paid|said|seen|sent|shown|sold|sought|spent|spoken|stood|struck|swept|"
    r"taken|taught|thought|thrown|told|torn|understood|woken|won|worn|written"
)
ADVERBS = re.compile(
    r"again|alike|alone|along|already|also|always|apart|aside|away|back|elsewhere|everywhere|"
    r"here|how|later|never|now|once|otherwise|often|rather|soon|still|then|there|thus|"
    r"together|twice|when|where|why"
)
NOUNS = {"assembly", "family", "feed", "need", "seed", "setting", "speed", "spring", "string"}

# What a reader finds, and what to write instead.
AVOIDED = {
    r"foretell|foretells|foretold": "predict, determine",
    r"dear|dearer": "expensive, slow",
    r"plainer|poor relations?": "plain baseline",
    r"rooms|doors?|house's": "package, module",
    r"faces|packs": "public names, plugins",
    r"of yours": "your own",
    r"told apart": "distinguished",
    r"surrenders?": "gives up",
    r"poison|poisons|poisoned": "stress test",
    r"adversary|adversaries": "stress test",
    r"attacked|honest|honestly": "guaranteed bound, 5 standard errors",
    r"promised": "guaranteed",
    r"likewise": "say what is alike",
    r"as it is": "unchanged",
    r"telling tokens?|spiked tokens?|marked tokens?": "informative token",
}

# (file, words): why they stay
EXCEPTIONS = {
    ("attnscope/estimators/sets.py", "promised"): "promised_coverage is a public method",
    ("attnscope/estimators/regressor.py", "promised"): "promised_coverage is a public method",
    ("attnscope/corpora/sentences.py", "honest"): "a word of the generated sentences",
    ("attnscope/__init__.py", "marked_tokens"): "the module of the marks, see sparse_tokens",
    ("attnscope/tasks/planted/__init__.py", "marked_tokens"): "the module of the marks",
    ("attnscope/tasks/planted/sparse_tokens.py", "marked_tokens"): "the module of the marks",
    ("attnscope/tasks/planted/sparse_tokens.py", "marked tokens"): (
        "each token carries a mark or none, and the label is whether any does"
    ),
}


def sources() -> list[Path]:
    return [path for name in PACKAGES for path in sorted((SRC / name).rglob("*.py"))]


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, value) of the constants at the top of a module."""
    for node in tree.body:
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        name = targets[0].id if isinstance(targets[0], ast.Name) else ""
        if name.isupper() and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            yield name, ast.dump(node.value)


def is_participle_or_adverb(name: str) -> bool:
    """Whether a function's name is an underscore and such a word."""
    word = name[1:]
    if not re.fullmatch(r"_[a-z]+", name) or word in NOUNS:
        return False
    known = IRREGULAR_PARTICIPLES.fullmatch(word) or ADVERBS.fullmatch(word)
    return bool(known or re.search(r"(ed|ing|ly)$", word))


def private_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def avoided_words(text: str) -> Iterator[str]:
    """Words of AVOIDED in names and prose; a part of a name counts, a line break does not."""
    for words in AVOIDED:
        pattern = rf"(?<![A-Za-z])(?:{words.replace(' ', r'[ _]')})(?![A-Za-z])"
        for found in re.finditer(pattern, " ".join(re.sub(r"\n\s*#", "\n", text).split())):
            yield found.group()


@pytest.mark.parametrize("subpackage", ONE_VALUE)
def test_a_constant_has_one_value_within_a_subpackage(subpackage):
    values = defaultdict(lambda: defaultdict(list))
    for path in sorted((SRC / "attnscope" / subpackage).rglob("*.py")):
        for name, value in constants(ast.parse(path.read_text(encoding="utf-8"))):
            values[name][value].append(path.name)
    assert len(values) > 10
    assert {name: dict(found) for name, found in values.items() if len(found) > 1} == {}


def test_no_private_function_is_a_participle_or_an_adverb():
    found = [
        (str(path.relative_to(SRC)), name)
        for path in sources()
        for name in private_functions(ast.parse(path.read_text(encoding="utf-8")))
        if is_participle_or_adverb(name)
    ]
    assert found == []


def test_no_avoided_words_but_the_exceptions():
    found = {
        (path.relative_to(SRC).as_posix(), words)
        for path in sources()
        for words in avoided_words(path.read_text(encoding="utf-8"))
    }
    assert found - set(EXCEPTIONS) == set()
    assert set(EXCEPTIONS) - found == set(), "exceptions that are no longer needed"


def test_no_file_is_named_by_an_avoided_word():
    names = {path.stem: path for path in sources()}
    assert [path for stem, path in names.items() if list(avoided_words(stem))] == [
        SRC / "attnscope/tasks/planted/marked_tokens.py"  # the module of the marks
    ]


def test_the_rules_catch_what_is_planted():
    tree = ast.parse("STEP = 1\nREACH: int = 2\nlow = 3\ndef _told(): ...\n")
    assert [name for name, _ in constants(tree)] == ["STEP", "REACH"]
    assert is_participle_or_adverb("_told") and is_participle_or_adverb("_scaled")
    assert is_participle_or_adverb("_apart") and is_participle_or_adverb("_evenly")
    for name in ("_seed", "_string", "_label_inputs", "told", "_scaled_rows"):
        assert not is_participle_or_adverb(name)
    planted = "a task of\n    # yours; many_rooms = 1; the doorstep; AS_IT_IS"
    assert list(avoided_words(planted)) == ["rooms", "of yours"]
