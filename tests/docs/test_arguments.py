"""Every argument of every public name is said: in the list of arguments, or in a sentence that names
it in backticks. Of methods, where a word is not one that means the same everywhere.
"""

import inspect
import re

import pytest

import attnscope as at

# callable: neither the rooms, nor the version, nor a table; an exception takes a sentence
NAMES = [
    name for name in at._MODULE_OF if callable(getattr(at, name)) and name != "AttnscopeError"
]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(at, name))]
# words of methods that mean one thing in the whole package
SAME_EVERYWHERE = {
    "n": "how many are drawn",
    "seed": "of the draws, >= 0",
    "rng": "NumPy's generator, for methods that tasks call on themselves",
    "samples": "how many draws a number is the mean of",
    "dtype": "of the arrays that come out",
    "length": "tokens of a sequence or context",
    "tokens": "(n, L, d), or what the class draws",
    "mask": "(n, L), True = real token",
    "query": "(..., d_k), what is asked of a context",
    "keys": "(..., L, d_k)",
    "values": "(..., L, d_v)",
    "latent": "what was drawn behind the tokens",
    "fields": "(n, L, r), projections on the teachers",
    "k": "(d,), the query-key direction",
    "v": "(d,), the value direction",
    "state": "of an engine: what `init` or `advance` returned",
    "overlaps": "as in Overlaps",
    "inverse_temperatures": "one for each step",
    "progress": "show a bar on stderr if that is a terminal",
    "parameters": "of a model, as training returns them",
    "scores": "lam X.k, before the weights",
    "bags": "in any form that fit takes",
    "y": "labels, one for each bag",
    "sample_weight": "weights, one for each bag",
    "groups": "of bags that belong together, as in fit",
    "coverage": "in (0, 1), the probability that is asked for",
    "head": "which of several, 0-based; None: all",
    "path": "of a file",
}
# what only the loop, the engines and JAX call
INNER = {"read", "lost", "held", "reached", "one", "logits", "output", "head_weights"}


def prose(text):
    """Without its examples."""
    lines = text.splitlines()
    return "\n".join(x for x in lines if not x.strip().startswith((">>>", "...")))


def listed(text):
    """The names in lists of arguments ("one, two: ...") and between backticks."""
    found = set()
    for span in re.findall(r"`([^`]+)`", text):
        found |= set(re.findall(r"\w+", span))
    for item in re.findall(r"^ +((?:\w+, )*\w+): ", text, re.M):
        found |= set(item.split(", "))
    return found


def parameters(function):
    return [x for x in inspect.signature(function).parameters if not x.startswith("_")]


def methods(kind):
    """Name and arguments of the public methods of ours."""
    for base in kind.__mro__:
        if base.__module__.startswith("attnscope"):
            for name, method in vars(base).items():
                function = inspect.unwrap(getattr(method, "__func__", method))
                if inspect.isfunction(function) and not name.startswith("_"):
                    own = 0 if isinstance(method, staticmethod) else 1  # self, cls
                    yield name, parameters(function)[own:]


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_is_said(name):
    thing = getattr(at, name)
    said = listed(prose(inspect.getdoc(thing)))
    unsaid = [x for x in parameters(thing) if x not in said]
    assert not unsaid, f"{name} does not say {', '.join(unsaid)}"


@pytest.mark.parametrize("name", CLASSES)
def test_methods_say_what_is_not_the_same_everywhere(name):
    kind = getattr(at, name)
    of_class = set(re.findall(r"\w+", prose(inspect.getdoc(kind))))
    for method, arguments in methods(kind):
        text = inspect.getdoc(getattr(kind, method)) or ""
        said = of_class | set(re.findall(r"\w+", prose(text))) | SAME_EVERYWHERE.keys()
        unsaid = [x for x in arguments if x not in said]
        assert method in INNER or not unsaid, f"{name}.{method}: {', '.join(unsaid)}"


def test_the_rules_can_fail():
    text = (
        "Of `one`.\n\nArgs:\n    two, three: said.\n        more: of it.\n\n>>> f(four=4)\n4"
    )
    assert listed(prose(text)) == {"one", "two", "three", "more"}
