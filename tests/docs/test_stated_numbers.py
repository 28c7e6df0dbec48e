"""Every number that the documentation states is computed: in sentences by the table of
stated_numbers.py, in Python blocks by running them. README and findings may state no other.
"""

import os
import re
import warnings

import pytest
from docs.stated_numbers import ALLOWED, CLOSELY_READ, ENTRIES, NO_RESULTS, recorded
from helpers.paths import DOCS, ROOT
from helpers.stated_values import agrees, wrong_comments

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="not part of the wheel")

# digits with or without a point, no part of a word, of a range, of an index or of a claim's id
NUMBER = re.compile(
    r"(?<![\w.^/-])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?(?![\w/])"
)
# pages whose blocks state values in comments; the seconds are CPU seconds
QUICK_PAGES = (  # 5 s together
    "kernel_curves.md",
    "positional_semantic.md",
    "retrieval.md",
    "topic_mixture.md",
    "papers_around.md",
    "exchangeability.md",
    "linear_attention.md",
)
SLOW_PAGES = (  # from 5 to 60 s each
    "blocks.md",
    "cramer_rao.md",
    "heads.md",
    "learning.md",
    "learning_curves_in_samples.md",
    "memory.md",
    "several_tokens.md",
    "sparse_and_correlated.md",
    "text.md",
    "training.md",
)


def words(text):
    """With single blanks: a sentence may be broken anywhere."""
    return " ".join(text.split())


def _id(entry):
    return f"{entry.page}-{next(iter(entry.numbers))}"


@pytest.mark.parametrize("entry", ENTRIES, ids=_id)
def test_the_sentence_is_there_and_has_its_numbers(entry):
    assert words(entry.words) in words((ROOT / entry.page).read_text("utf-8"))
    stated = NUMBER.findall(entry.words)
    assert [number for number in entry.numbers if number not in stated] == []


@pytest.mark.parametrize(
    "entry",
    [pytest.param(e, marks=[pytest.mark.slow] * e.slow, id=_id(e)) for e in ENTRIES],
)
def test_the_numbers_are_what_is_computed(entry):
    found = {text: float(compute()) for text, compute in entry.numbers.items()}
    assert {text: value for text, value in found.items() if not agrees(text, value)} == {}


@pytest.mark.parametrize(
    "page", [*QUICK_PAGES, *(pytest.param(p, marks=pytest.mark.slow) for p in SLOW_PAGES)]
)
def test_comments_of_python_blocks_are_what_the_lines_yield(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text("utf-8")
    names = {"__name__": "docs"}
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M):
            wrong += wrong_comments(block, names, page)
    assert [line for line in wrong if not any(part in line for part in NO_RESULTS)] == []


def test_a_wrong_comment_is_found():
    block = 'x = 0.25\nx  # 0.25\nx, 2 * x  # 0.23, twice 0.50\nprint("risk", x)  # 0.26\n'
    wrong = wrong_comments(block, {}, "page")
    assert len(wrong) == 2 and "['0.23']" in wrong[0] and "['0.26']" in wrong[1]


def prose(text):
    """Without blocks, code, comments and the targets of links; the sentence that counts the claims
    is compared by test_readme.py.
    """
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    text = re.sub(
        r"<!-- coverage -->.*?<!-- /coverage -->|<!--.*?-->|<[^>]*>", "", text, flags=re.S
    )
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "", text))


def unexplained(page, text):
    """Numbers that are in no entry and match no reason."""
    text = words(prose(text))
    for entry in ENTRIES:
        if entry.page == page:
            left = NUMBER.sub(
                lambda m, entry=entry: "" if m[0] in entry.numbers else m[0],
                words(prose(entry.words)),
            )
            text = text.replace(words(prose(entry.words)), left)
    for pattern in ALLOWED.values():
        text = re.sub(pattern, "", text)
    return NUMBER.findall(text)


@pytest.mark.parametrize("page", CLOSELY_READ)
def test_no_number_is_stated_without_its_computation(page):
    assert unexplained(page, (ROOT / page).read_text("utf-8")) == []


def test_a_new_number_is_found():
    page = CLOSELY_READ[0]
    text = (ROOT / page).read_text("utf-8")
    assert unexplained(page, f"{text}\nIt explains 97.3 % of the labels.") == ["97.3"]


def test_recorded_numbers_name_the_command_that_measures_them():
    for path in sorted((DOCS / "recorded").glob("*.json")):
        record = recorded(path.stem)
        assert set(record) == {"command", "version", "values"} and record["values"]
        script = record["command"].split()[1]
        assert (ROOT / script).exists() and os.sep + "tmp" not in record["command"]
        assert not any("second" in name for name in record["values"])
