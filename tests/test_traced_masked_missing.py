"""Every public function under jax.grad, jit and vmap, with masked arrays and with None.

One argument of a valid call (helpers/public_calls) is replaced at a time. Allowed is an answer that
is right, compared with differences of the function for grad and with plain calls for jit and vmap,
or an `AttnscopeError` of one sentence. A gradient of 0.0 where the function changes, a mask that is
dropped and any other exception are failures.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.public_calls import (
    AUTHOR_METHODS,
    CALLS,
    COMPUTED_WITH_JAX,
    IN_A_TABLE,
    NO_NUMBERS,
    NONE_IS_A_VALUE,
    OPTIONAL,
    PLAIN_METHODS,
    RECORDS,
    SLOW,
    UNREAD,
)

import attnscope as at

STEP = (
    1e-4  # of fourth-order differences: error 1e-16 of the fifth derivative, rounding 1e-12
)
CLOSE = 1e-8  # relative, of a gradient and its differences
LONGEST_SENTENCE = 400


def marked(names):
    return [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names
    ]


# -- the list of calls is complete -----------------------------------------------------------------


def test_every_public_name_is_called_or_listed():
    called = {name.partition(".")[0].partition(" (")[0] for name in CALLS}
    public = set(at._MODULE_OF)
    assert public - called - RECORDS - NO_NUMBERS == set()
    assert (RECORDS | NO_NUMBERS) - public == set()
    assert SLOW - set(CALLS) == set()


def test_every_public_method_is_called_or_listed():
    called = {name.partition(" (")[0] for name in CALLS}
    left = set()
    for name in at._MODULE_OF:
        kind = getattr(at, name)
        if not inspect.isclass(kind):
            continue
        for method, function in inspect.getmembers(kind, callable):
            listed = (
                f"{name}.{method}" == "GridLocation.spiked"
                or method in PLAIN_METHODS | AUTHOR_METHODS
            )
            if listed or method.startswith("_") or method.endswith("_request"):
                continue
            takes = len(inspect.signature(function).parameters)
            if takes <= (not isinstance(inspect.getattr_static(kind, method), classmethod)):
                continue
            if f"{name}.{method}" not in called and not inherited(kind, method, called):
                left.add(f"{name}.{method}")
    assert left == set()


def test_a_grid_refuses_the_spiked_law_of_a_sequence():
    with pytest.raises(at.AttnscopeError, match=r"use GridLocation\(rows, columns, dim"):
        at.GridLocation.spiked(6, 4, 4.0)


def inherited(kind, method, called):
    """Whether the same function is called as a method of another class."""
    function = getattr(kind, method)
    others = (name.partition(".")[0] for name in called if name.endswith(f".{method}"))
    return any(getattr(getattr(at, other), method, None) is function for other in others)


@pytest.mark.parametrize("name", marked(CALLS))
def test_the_calls_are_valid(name):
    function, arguments = CALLS[name]
    function(**arguments)


# -- replacing one argument ------------------------------------------------------------------------


class Place:
    """An argument of a call, or an entry of one: `value` stands there, `call(x)` puts x there."""

    def __init__(self, name, label, value, put):
        self.label, self.value, self.put = label, value, put
        self.function, self.arguments = CALLS[name]

    def call(self, x):
        argument = self.label.partition(".")[0]
        return self.function(**{**self.arguments, argument: self.put(x)})

    def total(self, x):
        """The sum of the answer's numbers, which JAX can follow."""
        parts = numbers(self.call(x))
        return sum((jnp.sum(jnp.asarray(part, float)) for part in parts), jnp.zeros(()))


def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def is_array(x):
    return isinstance(x, np.ndarray) and x.dtype.kind in "iuf"


def places(name):
    """Where a call has numbers or arrays."""
    for argument, value in CALLS[name][1].items():
        for part, x, put in parts_of(value):
            if name not in IN_A_TABLE or part:
                yield Place(name, f"{argument}.{part}" if part else argument, x, put)


def parts_of(value):
    """(name of the part, what stands there, how to put something else there)."""
    if is_number(value) or is_array(value):
        yield "", value, lambda x: x
    elif isinstance(value, dict) and value and all(map(is_array, value.values())):
        for key in value:
            yield key, value[key], lambda x, key=key: value | {key: x}
    elif hasattr(value, "_fields"):  # a named tuple
        for field, x in value._asdict().items():
            if is_number(x) or is_array(x):
                yield field, x, lambda x, field=field: value._replace(**{field: x})
    elif isinstance(value, (list, tuple)) and len(value):
        if all(map(is_array, value)) or all(map(is_number, value)):
            for i in {0, len(value) - 1}:
                put = lambda x, i=i: type(value)([*value[:i], x, *value[i + 1 :]])
                yield str(i), value[i], put
        if all(map(is_number, value)):
            yield "", np.array(value), lambda x: x


def outcome(call, *given, **named):
    """The answer, or None for a refusal in one sentence."""
    try:
        return call(*given, **named)
    except at.AttnscopeError as error:
        sentence = str(error)
        assert "\n" not in sentence and 20 < len(sentence) < LONGEST_SENTENCE, sentence
        return None


def numbers(x):
    """Every number in an answer."""
    if isinstance(x, at.Estimate):
        return [x.value]
    if isinstance(x, dict):
        return [part for value in x.values() for part in numbers(value)]
    if isinstance(x, (list, tuple)):
        return [part for value in x for part in numbers(value)]
    return [x] if is_number(x) or is_array(x) or isinstance(x, (np.number, jax.Array)) else []


@pytest.mark.parametrize("name", marked(CALLS))
def test_traced_values_are_refused_or_followed(name):
    for place in places(name):
        with at.x64():
            x = jnp.asarray(place.value)
            whole = outcome(jax.jit(place.total), x)
            rows = outcome(jax.vmap(place.total), jnp.stack([x, x]))
            slope = jax.grad(place.total)
            # what JAX can follow is compiled: operation by operation it takes a minute
            slope = outcome(slope if whole is None else jax.jit(slope), x.astype(float))
            for found in (whole, rows):
                if found is not None:
                    assert np.allclose(found, place.total(place.value), rtol=CLOSE), (
                        place.label
                    )
            if slope is not None:
                check_slope(place, np.asarray(x, float), np.asarray(slope))


def check_slope(place, x, slope):
    """The slope along a direction against differences of the function."""
    along = np.random.default_rng(3).standard_normal(x.shape)
    values = [float(place.total(x + k * STEP * along)) for k in (-2, -1, 1, 2)]
    wanted = np.dot([1, -8, 8, -1], values) / (12 * STEP)
    assert abs(np.sum(slope * along) - wanted) <= CLOSE * (1 + abs(wanted)), place.label


@pytest.mark.parametrize("name", sorted(COMPUTED_WITH_JAX))
def test_plain_numbers_are_computed_inside_jit(name):
    """Our own use of JAX is not put off by a caller's jit."""
    function, arguments = CALLS[name]
    size = lambda found: sum(float(np.sum(part)) for part in numbers(found))
    with at.x64():
        inside = jax.jit(lambda t: t + size(function(**arguments)))(0.0)
    assert abs(float(inside) - size(function(**arguments))) < CLOSE


@pytest.mark.parametrize("name", CALLS)
def test_masked_entries_are_refused(name):
    for place in places(name):
        mask = np.zeros(np.shape(place.value), bool)
        mask.reshape(-1)[-1:] = True
        hidden = np.ma.array(place.value, mask=mask) if mask.ndim else np.ma.masked
        if place.label not in UNREAD:
            assert outcome(place.call, hidden) is None, place.label


def test_an_array_without_a_masked_entry_is_its_data():
    bare = np.random.default_rng(0).standard_normal((30, 3, 2))
    y = bare[:, 0, 0]
    model = at.SingleLocationRegressor(alpha=(np.inf, 1.0), components=None)
    found = model.fit(np.ma.array(bare), np.ma.array(y)).predict(np.ma.array(bare))
    assert np.array_equal(found, model.fit(bare, y).predict(bare))


@pytest.mark.parametrize("name", CALLS)
def test_missing_values_are_refused(name):
    function, arguments = CALLS[name]
    for argument, value in arguments.items():
        if not isinstance(value, (bool, str)) and not optional(function, argument):
            assert outcome(function, **{**arguments, argument: None}) is None, argument
    for place in places(name):
        if (
            name in NONE_IS_A_VALUE
            or optional(function, place.label)
            or place.label in UNREAD
        ):
            continue
        without = np.array(place.value, dtype=object)
        without.reshape(-1)[-1:] = None
        assert outcome(place.call, without if without.ndim else None) is None, place.label


def optional(function, label):
    argument, _, part = label.partition(".")
    known = inspect.signature(function).parameters.get(argument)
    default = known is not None and known.default is None
    return bool(OPTIONAL & {argument, part}) or (default and not part)


# -- the sentences ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gamma", "signal", "noise"])
def test_a_traced_task_names_risk_function(name):
    """jax.grad through `risk` and `bayes_risk` would be 0.0."""

    def risks(x):
        task = at.SingleLocation(50, 8, **{"signal": 3.0, name: x})
        return (
            at.risk(task, at.Erf(0.3), at.Overlaps.oracle()).value + task.bayes_risk().value
        )

    for transform in (jax.grad, jax.jit, lambda f: jax.vmap(lambda x: f(x))):
        start = jnp.ones(3) if transform not in (jax.grad, jax.jit) else 1.0
        with pytest.raises(at.AttnscopeError, match=rf"{name} of .* use risk_function\("):
            transform(risks)(start)


def test_a_traced_inverse_temperature_names_risk_function():
    task = at.SingleLocation(50, 8)
    excess = lambda lam: at.risk(task, at.Softmax(lam), at.Overlaps.oracle()).value
    with pytest.raises(
        at.AttnscopeError, match=r"inverse_temperature of Softmax .* risk_function\("
    ):
        jax.grad(excess)(0.5)
    with pytest.raises(at.AttnscopeError, match=r"kappa of risk .* use risk_function\("):
        jax.grad(
            lambda k: at.risk(task, at.Erf(0.5), at.Overlaps(k, 0.0, 0.0, 1.0, 0.0)).value
        )(0.5)


def test_a_mask_says_how_many():
    tokens = np.ma.array(np.ones((4, 3, 2)), mask=np.zeros((4, 3, 2), bool))
    tokens[0, 0] = np.ma.masked
    with pytest.raises(
        at.AttnscopeError, match=r"bags of .*fit has 2 masked entries; remove"
    ):
        at.SingleLocationRegressor().fit(tokens, np.arange(4.0))
