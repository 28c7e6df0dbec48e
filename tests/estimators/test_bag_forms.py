"""Whatever form bags come in, they are read as the same bags; what cannot be read is one sentence.

Every form is compared with the (n, L, d) array of the same numbers: the second route is that the
caller's own conversion changes nothing.
"""

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
from helpers.tolerances import EXACT
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.bags.bags import read_bags

N, L, D = 60, 4, 5
TASK = at.SingleLocation(dim=D, length=L, signal=5.0, noise=0.1, seed=3)
DATA = TASK.sample(N, seed=1)
X, Y = DATA.tokens, DATA.target
COLUMNS = [f"f{i}" for i in range(D)]
QUICK = {
    "gate": "quadratic",
    "pooling": "softmax",
    "loss": "mixture",
    "n_starts": 2,
    "alpha": (np.inf, 0.1),
}
# rows of different bags mixed, in order within each; names that sort otherwise than they appear
PLACE = np.random.default_rng(5).permutation(
    np.repeat(np.arange(N), L)
)  # each row's bag in X
ORDER = np.empty(N * L, int)  # and its place among all tokens
ORDER[np.argsort(PLACE, kind="stable")] = np.arange(N * L)
IDS = np.array([f"bag {(7 * i) % N}" for i in range(N)])[PLACE]
FLAT = X.reshape(-1, D)[ORDER]
FIRST = PLACE[np.sort(np.unique(IDS, return_index=True)[1])]  # bags by first appearance


@pytest.fixture(scope="module")
def model():
    return at.SingleLocationRegressor(**QUICK).fit(X, Y)


def table(extra=True):
    frame = pd.DataFrame(FLAT, columns=COLUMNS)
    frame.insert(2, "bag", IDS)
    if extra:
        frame["label"] = Y[PLACE]
        frame["comment"] = "none"
    return frame


class Tensor:
    """What torch's tensors do, without torch: refuse NumPy while they have a gradient or a kind of
    number that NumPy has not.
    """

    def __init__(self, values, grad=True, device="gpu", kind="float32"):
        self.values = np.asarray(values)
        self.grad, self.device, self.kind = grad, device, kind
        self.ndim, self.shape = self.values.ndim, self.values.shape

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def __len__(self):
        return len(self.values)

    def __getitem__(self, at):
        return Tensor(self.values[at], self.grad, self.device, self.kind)

    def detach(self):
        return Tensor(self.values, False, self.device, self.kind)

    def cpu(self):
        return Tensor(self.values, self.grad, "cpu", self.kind)

    def float(self):
        return Tensor(self.values.astype(np.float32), self.grad, self.device)

    def numpy(self):
        if self.grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.device != "cpu" or self.kind == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


# -- tensors and short floats ----------------------------------------------------------------------


def test_a_stand_in_refuses_as_torch_does():
    with pytest.raises(RuntimeError):
        np.asarray(Tensor(X))
    with pytest.raises(TypeError):
        Tensor(X, kind="bfloat16").detach().cpu().numpy()


@pytest.mark.parametrize("kind", ["float64", "bfloat16"])
def test_tensors_with_gradients_and_bfloat16(model, kind):
    short = X.astype(np.float32)
    expected = model.predict(short)
    labels = Tensor(Y)
    for bags in (
        Tensor(short, kind=kind),
        [Tensor(x, kind=kind) for x in short],
        (Tensor(short, kind=kind), Tensor(np.ones((N, L), int))),
        (Tensor(short.reshape(-1, D), kind=kind), Tensor(np.repeat(np.arange(N), L))),
    ):
        np.testing.assert_array_equal(model.predict(bags), expected)
        np.testing.assert_array_equal(model.locate(bags, labels), model.locate(short, Y))
    weight = Tensor(np.ones(N))
    again = at.SingleLocationRegressor(**QUICK).fit(Tensor(X), labels, weight)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_torch_itself(model):
    torch = pytest.importorskip("torch")
    x = torch.tensor(X, requires_grad=True)
    np.testing.assert_array_equal(model.predict(x), model.predict(X))
    mask = torch.ones((N, L), dtype=torch.int64)
    short = x.to(torch.bfloat16)
    exact = short.detach().to(torch.float64).numpy()
    for bags in (short, list(short), (short, mask)):
        np.testing.assert_array_equal(model.predict(bags), model.predict(exact))


def test_bfloat16_of_ml_dtypes(model):
    short = X.astype(ml_dtypes.bfloat16)
    exact = short.astype(np.float64)
    for bags in (short, list(short), (short, np.ones((N, L), bool))):
        np.testing.assert_array_equal(model.predict(bags), model.predict(exact))


# -- masks and one bag -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bool, np.int64, np.uint8, np.float32, list])
def test_masks_of_any_kind_of_zero_and_one(model, kind):
    padded = np.concatenate([X, np.full((N, 2, D), 1e9)], axis=1)
    mask = np.repeat([1, 0], [L, 2]) * np.ones((N, 1), int)
    given = mask.tolist() if kind is list else mask.astype(kind)
    np.testing.assert_array_equal(model.predict((padded, given)), model.predict(X))
    assert model.attention((padded, given)).shape == (N, L + 2)


def test_two_bags_in_a_tuple_are_two_bags(model):
    np.testing.assert_array_equal(model.predict((X[0], X[1])), model.predict(X[:2]))


def test_one_bag(model):
    for bag in (X[3], X[3].astype(np.float32), Tensor(X[3])):
        assert model.predict(bag).shape == (1,)
        np.testing.assert_allclose(model.predict(bag), model.predict(X[3:4]), rtol=1e-6)
        assert model.attention(bag).shape == (1, L)
        assert model.locate(bag)[0] == model.locate(X)[3]


# -- rows ------------------------------------------------------------------------------------------


def test_rows_with_ids(model):
    bags = (FLAT, IDS)
    np.testing.assert_allclose(model.predict(bags), model.predict(X)[FIRST], rtol=EXACT)
    attention = model.attention(bags)
    np.testing.assert_allclose(attention, model.attention(X).reshape(-1)[ORDER], rtol=EXACT)
    held = read_bags(bags, "test")
    where = held.offsets[:-1] + model.locate(bags)  # positions count a bag's own rows
    largest = model.attention(X).max(axis=1)[FIRST]
    np.testing.assert_allclose(attention[held.rows.row[where]], largest, rtol=EXACT)


@pytest.mark.parametrize("way", ["column", "per bag", "per row", "by name", "mapping"])
def test_labels_of_rows(way):
    frame = table()
    by_name = pd.Series(Y[FIRST], index=pd.unique(IDS)).sort_index()
    y = {
        "column": "label",
        "per bag": Y[FIRST],
        "per row": frame["label"],
        "by name": by_name,
        "mapping": by_name.to_dict(),
    }[way]
    bags = frame if way == "column" else frame.drop(columns="label")
    found = at.SingleLocationRegressor(**QUICK).fit(bags, y)
    expected = at.SingleLocationRegressor(**QUICK).fit(list(X[FIRST]), Y[FIRST])
    np.testing.assert_allclose(found.predict(bags), expected.predict(X[FIRST]), rtol=EXACT)
    np.testing.assert_array_equal(found.locate(bags, y), expected.locate(X[FIRST], Y[FIRST]))
    assert found.feature_names_in_.tolist() == COLUMNS


def test_a_model_finds_its_columns_again(tmp_path):
    frame = table()
    model = at.SingleLocationRegressor(**QUICK).fit(frame, "label")
    other = frame[[*reversed(COLUMNS), "bag"]].assign(more=1.0)
    np.testing.assert_array_equal(model.predict(other), model.predict(frame))
    model.save(tmp_path / "m.npz")
    loaded = at.load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.predict(other), model.predict(frame))
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


def test_batches_of_tables_and_an_index(model):
    frame = table().set_index("bag")
    np.testing.assert_array_equal(
        model.predict(frame[COLUMNS]), model.predict(table()[["bag", *COLUMNS]])
    )
    parts = [frame[frame.index.isin(pd.unique(IDS)[i::2])] for i in range(2)]
    batches = [(part, "label") for part in parts]
    found = at.SingleLocationRegressor(**{**QUICK, "alpha": 1.0}).fit_batches(
        batches, passes=3
    )
    lists = [at.bags_from_frame(part, target="label") for part in parts]
    same = at.SingleLocationRegressor(**{**QUICK, "alpha": 1.0}).fit_batches(
        [(part.bags, part.label) for part in lists], passes=3
    )
    np.testing.assert_array_equal(found.predict(frame), same.predict(frame[COLUMNS]))


def test_bags_from_frame_in_cross_validation():
    frame = table().rename(columns={"bag": "slide"})
    found = at.bags_from_frame(frame, bag="slide", target="label", features=COLUMNS)
    np.testing.assert_array_equal(found.label, Y[FIRST])
    np.testing.assert_array_equal(
        frame["slide"].to_numpy()[found.rows[3]], [found.names[3]] * L
    )
    assert found.features == tuple(COLUMNS) and found.weight is None
    kind = at.SingleLocationRegressor(**QUICK)
    expected = cross_val_score(kind, X[FIRST], Y[FIRST], cv=2)
    np.testing.assert_allclose(
        cross_val_score(kind, found.bags, found.label, cv=2), expected, rtol=EXACT
    )


def test_polars_tables(model):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({name: table()[name].to_numpy() for name in table().columns})
    expected = at.SingleLocationRegressor(**QUICK).fit(table(), "label")
    found = at.SingleLocationRegressor(**QUICK).fit(frame, "label")
    np.testing.assert_array_equal(found.predict(frame), expected.predict(table()))
    assert at.bags_from_frame(frame, target="label").names.tolist() == pd.unique(IDS).tolist()


# -- sentences -------------------------------------------------------------------------------------


def broken(column, row, value):
    frame = table().astype({"bag": object})
    row = row if isinstance(row, slice) else [row]
    frame.loc[frame.index[row], column] = value
    return frame


BAD = {
    "a scaler's output": (lambda: (X[:, 0], Y), "BagScaler"),
    "mask of twos": (lambda: ((X, np.full((N, L), 2)), Y), "True or 1"),
    "additive mask": (lambda: ((X, np.full((N, L), -1e9)), Y), "True or 1"),
    "short ids": (lambda: ((FLAT, IDS[1:]), Y), "an id for each row"),
    "ids of NaN": (
        lambda: ((FLAT, np.full(N * L, np.nan)), Y),
        "the first for row 0; name the bag",
    ),
    "labels among features": (lambda: (table(), Y), '"label" as y'),
    "no such label": (lambda: (table(), "sick"), "a column sick"),
    "no bag column": (lambda: (table().drop(columns="bag"), "label"), "bags_from_frame"),
    "nameless row": (
        lambda: (broken("bag", 3, None), "label"),
        "none in 1 of 240 rows, the first row 3",
    ),
    "NaN in row": (lambda: (broken("f1", 7, np.nan), "label"), "nan in row 7"),
    "two labels": (lambda: (broken("label", 2, 1e3), "label"), "constant within a bag"),
    "names without a bag": (
        lambda: ((FLAT, IDS), pd.Series(Y, index=[f"x{i}" for i in range(N)])),
        "none for bag",
    ),
    "no features": (lambda: (table()[["bag", "label"]], "label"), "column of numbers"),
    "no rows": (lambda: (table().iloc[:0], "label"), "at least one row"),
    "columns of one name": (
        lambda: (table().rename(columns={"f1": "f2"}), "label"),
        "different names",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_sentences(case):
    make, words = BAD[case]
    bags, y = make()
    with pytest.raises(AttnscopeError, match=r"must (not )?be") as error:
        at.SingleLocationRegressor(**QUICK).fit(bags, y)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_plain_scaler_before_rows_of_bags_is_told_of_the_bag_scaler():
    pipe = make_pipeline(StandardScaler(), at.SingleLocationRegressor(**QUICK))
    with pytest.raises(AttnscopeError, match="BagScaler"):
        pipe.fit(table()[COLUMNS], Y[PLACE])


def test_sentences_of_bags_from_frame_and_of_a_missing_column(model):
    for arguments, words in (
        ((X,), "a pandas or polars table"),
        ((table(), 3), "the name of a column"),
        ((table(), "slide"), "a column slide"),
        ((broken("label", slice(None), np.nan), "bag", "label"), "a value in every row"),
    ):
        with pytest.raises(AttnscopeError, match=words):
            at.bags_from_frame(*arguments)
    named = at.SingleLocationRegressor(**QUICK).fit(table(), "label")
    with pytest.raises(AttnscopeError, match="a column f1"):
        named.predict(table().drop(columns="f1"))
