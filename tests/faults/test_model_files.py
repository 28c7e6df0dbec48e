"""Model files that were altered: a sentence when they are loaded, or a model whose answers are
numbers. Alterations know what is in the file: every member in turn gets a NaN, another sign, shape
or kind, is left out, or is exchanged; the head gets other words and types; bytes are cut and turned.
"""

import io
import json
import zipfile

import numpy as np
import pytest

import attnscope as at

QUICK = 40  # alterations of each model in `make test`, of some 300


def drawn():
    task = at.SingleLocation(6, 5, signal=4.0, noise=0.2, seed=1)
    return task.sample(60, seed=1)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Contents of the files of a regressor with two heads, a classifier and a witness model."""
    batch = drawn()
    positive = batch.target > 0
    models = {
        "regressor": at.SingleLocationRegressor(heads=2).fit(batch.tokens, batch.target),
        "classifier": at.SingleLocationClassifier().fit(
            batch.tokens, np.where(positive, "yes", "no")
        ),
        "witness": at.SingleLocationClassifier(assumption="witness").fit(
            batch.tokens, positive.astype(int)
        ),
    }
    folder = tmp_path_factory.mktemp("models")
    out = {}
    for name, model in models.items():
        model.save(folder / f"{name}.npz")
        with np.load(folder / f"{name}.npz") as file:
            out[name] = {member: file[member] for member in file.files}
    return out


def with_first(array, value):
    out = np.array(array, dtype=float)
    out.flat[:1] = value
    return out


MEMBERS = {
    "NaN": lambda a: with_first(a, np.nan),
    "infinite": lambda a: with_first(a, np.inf),
    "negative": lambda a: with_first(a, -1e300),
    "zero": lambda a: np.zeros_like(a),
    "one axis more": lambda a: a[None],
    "longer": lambda a: np.concatenate([np.atleast_1d(a)] * 2),
    "empty": lambda a: np.atleast_1d(a)[:0],
    "words": lambda a: np.array("altered"),
    "complex": lambda a: np.asarray(a, dtype=complex) if a.dtype.kind in "biuf" else a,
    "huge": lambda a: with_first(a, 1e308),
}
HEADS = [
    None,
    [],
    {},
    {"format": "3"},
    {"format": 99},
    {"kind": "os.system"},
    {"params": []},
    {"params": {"heads": -1}},
    {"params": {"heads": "many"}},
    {"params": {"nothing": 1}},
    {"facts": 7},
    {"facts": {"mean_share_": "half"}},
    {"plus": [1, 2]},
    {"plus": "all"},
]


def altered(original):
    """(what was done, members) for every alteration."""
    for name, array in original.items():
        if name == "head":
            continue
        yield f"{name} left out", {k: v for k, v in original.items() if k != name}
        for what, alter in MEMBERS.items():
            if array.dtype.kind == "U" and what not in ("one axis more", "longer", "empty"):
                continue
            yield f"{name} {what}", {**original, name: alter(array)}
    head = json.loads(str(original["head"]))
    for change in HEADS:
        new = head | change if isinstance(change, dict) and change else change
        yield f"head {change}", {**original, "head": np.array(json.dumps(new))}
    yield "head of bytes", {**original, "head": np.arange(5)}


def answers(path):
    """The model's answers to new bags; a sentence is raised."""
    model = at.load_model(path)
    tokens = drawn().tokens[:7]
    found = [
        model.attention(tokens),
        model.predict_proba(tokens) if hasattr(model, "classes_") else model.predict(tokens),
    ]
    return np.concatenate([np.ravel(np.concatenate([np.ravel(y) for y in x])) for x in found])


def check(what, members, path):
    np.savez(path, **members)
    try:
        found = answers(path)
    except at.AttnscopeError:
        return
    assert np.isfinite(found).all(), what


@pytest.mark.parametrize("kind", ["regressor", "classifier", "witness"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a huge number may overflow on its way
def test_an_altered_file_is_refused_or_answers(kind, originals, tmp_path):
    cases = list(altered(originals[kind]))
    chosen = np.random.default_rng(22).choice(len(cases), QUICK, replace=False)
    for i in chosen:
        check(*cases[i], tmp_path / "model.npz")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["regressor", "classifier", "witness"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_altered_file_is_refused_or_answers(kind, originals, tmp_path):
    for what, members in altered(originals[kind]):
        check(what, members, tmp_path / "model.npz")


ATTRIBUTES = {
    "infinite weights": ("conformal_weights_", lambda a: with_first(a, np.inf)),
    "negative weights": ("conformal_weights_", lambda a: with_first(a, -1)),
    "weights cut": ("conformal_weights_", lambda a: a[:-1]),
    "scores of text": ("conformal_scores_", lambda a: a.astype(str)),
    "scores of two axes": ("conformal_scores_", lambda a: a[None]),
    "classes cut": ("classes_", lambda a: a[:1]),
    "classes added": ("classes_", lambda a: np.append(a, "z")),
    "one class twice": ("classes_", lambda a: a[[0, 0]]),
    "no classes": ("classes_", lambda a: a[:0]),
}


@pytest.mark.parametrize("what", ATTRIBUTES)
def test_attributes_that_no_fit_leaves_are_refused_by_name(what, originals, tmp_path):
    """When the file is loaded, not when a set or an interval is asked for."""
    name, alter = ATTRIBUTES[what]
    members = originals["classifier"]
    path = tmp_path / "model.npz"
    np.savez(path, **members | {name: alter(members[name])})
    with pytest.raises(at.AttnscopeError, match=f"^{name} of .* of load_model must be"):
        at.load_model(path)


def test_the_originals_answer(originals, tmp_path):
    for members in originals.values():
        np.savez(tmp_path / "model.npz", **members)
        assert np.isfinite(answers(tmp_path / "model.npz")).all()


def test_cut_and_turned_bytes_are_refused(originals, tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, **originals["classifier"])
    content = buffer.getvalue()
    rng = np.random.default_rng(23)
    path = tmp_path / "model.npz"
    for i in range(40):
        turned = bytearray(content)
        if i % 2:
            del turned[rng.integers(len(turned)) :]
        else:
            turned[rng.integers(len(turned))] ^= 1 << rng.integers(8)
        path.write_bytes(turned)
        try:
            found = answers(path)
        except at.AttnscopeError:
            continue
        assert np.isfinite(found).all()


@pytest.mark.parametrize("member", ["fitted.gate", "head"])
def test_members_that_cannot_be_unpacked_are_refused(member, originals, tmp_path):
    """A compression that nobody knows, and a flag that says encrypted."""
    path = tmp_path / "model.npz"
    for offset, value in ((10, 99), (8, 1)):  # in the central directory: method, flags
        np.savez(path, **originals["classifier"])
        content = bytearray(path.read_bytes())
        with zipfile.ZipFile(path) as file:
            name = file.getinfo(f"{member}.npy").filename.encode()
        at_name = content.rindex(name)
        content[at_name - 46 + offset] = value
        path.write_bytes(content)
        with pytest.raises(at.AttnscopeError, match="file written by save_model"):
            at.load_model(path)
