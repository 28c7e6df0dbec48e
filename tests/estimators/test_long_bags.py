"""EM on wide tokens and long bags: moments and steps by a second route, a sample that stands for its
bag, the same model however bags are cut, kept or sent to workers, and one witness among thousands.
"""

import numpy as np
import pytest
from helpers.tolerances import INTEGRAL, ROOT_EPS

import attnscope as at
from attnscope.estimators.bags import pieces
from attnscope.estimators.fit import long_bags, token_sample
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.em import em_step
from attnscope.estimators.fit.em_batches import batch_moments
from attnscope.estimators.fit.mixture import bag_answers, from_em
from attnscope.estimators.fit.starts import bag_moments, make_starts
from attnscope.estimators.fit.subspace import lift_model, project_data
from attnscope.numerics.compiled.data_pass import BERNOULLI, CATEGORICAL, GAUSSIAN

OFFSETS = np.array([0, 40, 100, 130, 210])
X = np.random.default_rng(1).standard_normal((210, 12)) + 0.3
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0])
KINDS = {
    "numbers": (GAUSSIAN, 1, np.array([0.3, -1.0, 2.0, 0.1])),
    "two classes": (BERNOULLI, 1, np.array([0.0, 1.0, 1.0, 0.0])),
    "three classes": (CATEGORICAL, 3, np.array([0.0, 1.0, 2.0, 0.0])),
}


def data_of(kind):
    family, outputs, y = KINDS[kind]
    return Data(X, OFFSETS, y, WEIGHT, family, outputs, np.full(12, -0.2))


def starts_of(data, moments=None, dof=np.inf):
    moments = bag_moments(data) if moments is None else moments
    return make_starts(moments, data.family, data.origin, 6, 0, dof)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_by_two_routes(kind):
    """One Gram matrix a bag, against one of all tokens an output; and those of projected tokens
    against projected moments.
    """
    data = data_of(kind)
    moments = batch_moments(data)
    for mine, theirs in zip(moments, bag_moments(data)):
        np.testing.assert_allclose(mine, theirs, rtol=INTEGRAL, atol=INTEGRAL)
    space = long_bags.working_directions(moments, starts_of(data), 3)
    assert 3 < space.basis.shape[1] < 12
    np.testing.assert_allclose(
        space.basis.T @ space.back, np.eye(space.basis.shape[1]), atol=INTEGRAL
    )
    inside = bag_moments(project_data(data, space))
    for mine, theirs in zip(long_bags.moments_in_directions(moments, space), inside):
        np.testing.assert_allclose(mine, theirs, rtol=INTEGRAL, atol=INTEGRAL)


def test_every_start_is_whole_in_the_directions():
    """The gates and values of the starts from whole tokens are functions of the projected ones."""
    data = data_of("numbers")
    starts = starts_of(data)
    space = long_bags.working_directions(bag_moments(data), starts, 2)
    inside = space.basis @ np.linalg.pinv(space.basis)
    for em in starts.values():
        slope = em.tokens.whiten @ em.tokens.key
        np.testing.assert_allclose(inside @ slope, slope, atol=1e-2 * np.linalg.norm(slope))
    em = starts_of(project_data(data, space), None)["sum"]
    whole = bag_answers(lift_model(from_em(em, GAUSSIAN), space), X, OFFSETS).output
    projected = bag_answers(from_em(em, GAUSSIAN), X @ space.basis, OFFSETS).output
    np.testing.assert_allclose(whole, projected, rtol=INTEGRAL)


@pytest.mark.parametrize("dof", [np.inf, 5.0])
def test_a_step_is_a_step_of_em(dof):
    """On all tokens, in two blocks stored in float32: `em_step` in memory, to float32's digits."""
    data = data_of("numbers")
    em = starts_of(data, dof=dof)["sum"]
    expected, value = em_step(em, data, True)
    zeros = np.zeros(1)
    tokens = X.astype(np.float32)
    blocks = [
        token_sample.Block(tokens[:100], OFFSETS[:3], data.labels[:2], WEIGHT[:2], zeros),
        token_sample.Block(
            tokens[100:], OFFSETS[2:] - 100, data.labels[2:], WEIGHT[2:], zeros
        ),
    ]
    everything = long_bags._total_gram(bag_moments(data))
    work = token_sample.Work(GAUSSIAN, 1, data.origin, everything, True, None)
    new, likelihood, _ = long_bags._em_step(em, blocks, work)
    digits = {"rtol": 2e-5, "atol": 2e-5}  # of float32 tokens in sums of 210
    assert likelihood == pytest.approx(value, rel=2e-5)
    np.testing.assert_allclose(new.tokens.mean, expected.tokens.mean, **digits)
    np.testing.assert_allclose(new.tokens.whiten, expected.tokens.whiten, **digits)
    np.testing.assert_allclose(new.tokens.key, expected.tokens.key, **digits)
    np.testing.assert_allclose(new.values.weights, expected.values.weights, **digits)


def test_a_sample_stands_for_its_bag(monkeypatch):
    """The first of each order are in it, multiplicities add up to the bag, and a sum over it has the
    bag's sum as its mean: 400 draws, 5 standard errors (6e-7, had the seeds not been fixed).
    """
    monkeypatch.setattr(token_sample, "SAMPLE_TOKENS_PER_BAG", 40)
    rng = np.random.default_rng(3)
    standing = rng.standard_normal((500, 3))
    value = np.exp(rng.standard_normal(500))
    sums = []
    for seed in range(400):
        rows, share = token_sample.sample_tokens(standing, np.random.default_rng(seed))
        assert len(set(rows)) == 40 and set(np.argmax(standing, axis=0)) <= set(rows)
        assert np.exp(share).sum() == pytest.approx(500)
        sums.append(np.exp(share) @ value[rows])
    error = np.std(sums, ddof=1) / np.sqrt(400)
    assert error > 0 and abs(np.mean(sums) - value.sum()) < 5 * error


# -- from files ------------------------------------------------------------------------------------

N, LENGTH, WIDTH = 16, 1100, 132
QUICK = {"n_starts": 4}


def slides(seed):
    """One witness of strength 12 in every second bag, in the 20 widest of 132 directions."""
    rng = np.random.default_rng(seed)
    fixed = np.random.default_rng(9)
    turn = np.linalg.qr(fixed.standard_normal((WIDTH, WIDTH)))[0] / np.sqrt(
        np.arange(1, WIDTH + 1)
    )
    key = np.zeros(WIDTH)
    key[:20] = fixed.standard_normal(20)
    z = rng.standard_normal((N, LENGTH, WIDTH))
    where = rng.integers(0, LENGTH, N)
    y = np.arange(N) % 2
    z[np.flatnonzero(y), where[y == 1]] += 12 * key / np.linalg.norm(key)
    return (z @ turn.T).astype(np.float32), y, where


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    tokens, y, where = slides(0)
    for i in range(0, N, 2):
        np.save(folder / f"s{i:02d}.npy", tokens[i : i + 2])
    bags = at.open_bags(folder, y)
    return bags, at.SingleLocationClassifier(**QUICK).fit_batches(bags, passes=5), where


@pytest.mark.slow
def test_one_witness_among_thousands_is_found(planted):
    bags, model, where = planted
    positive = bags.labels == 1
    assert np.array_equal(model.locate(bags)[positive], where[positive])
    assert model.score(bags, bags.labels) == 1.0
    fresh, y, there = slides(1)
    assert np.mean(model.locate(fresh)[y == 1] == there[y == 1]) == 1.0
    assert 64 < model.components_ < 80 and set(model.start_losses_) >= {"sum", "far+"}


@pytest.mark.slow
def test_the_same_however_they_are_cut_and_kept(planted, monkeypatch):
    """Other pieces, and nothing kept in memory between passes: to the rounding of sums."""
    bags, model, _ = planted
    monkeypatch.setattr(pieces, "PIECE_NUMBERS", 3 * LENGTH * WIDTH)
    monkeypatch.setattr(long_bags, "CACHE_BYTES", 0)
    other = at.SingleLocationClassifier(**QUICK).fit_batches(bags, passes=5)
    np.testing.assert_allclose(
        other.predict_proba(bags), model.predict_proba(bags), rtol=ROOT_EPS, atol=ROOT_EPS
    )


def test_numbers_and_the_saved_model(tmp_path):
    batch = at.SingleLocation(dim=130, length=6, signal=8.0, noise=0.1).sample(400, seed=2)
    made = [
        (batch.tokens[:150], batch.target[:150]),
        (batch.tokens[150:], batch.target[150:]),
    ]
    model = at.SingleLocationRegressor().fit_batches(made)
    assert np.mean(model.locate(batch.tokens) == batch.location) > 0.98
    assert model.score(batch.tokens, batch.target) > 0.5
    model.save(tmp_path / "m.npz")
    again = at.load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.predict(batch.tokens), model.predict(batch.tokens))


@pytest.mark.slow  # Dask's scheduler of threads is imported for it alone
def test_files_read_by_dask_threads(planted):
    """One partition a file: the same model as read here, and the same answers in the same order."""
    bags, model, _ = planted
    far = bags.to_dask()
    assert len(far.partitions) == 8
    assert far.partitions[3].compute().names.tolist() == ["s06:0", "s06:1"]
    other = at.SingleLocationClassifier(**QUICK).fit_batches(far, passes=5)
    np.testing.assert_allclose(
        other.predict_proba(far), model.predict_proba(bags), rtol=ROOT_EPS, atol=ROOT_EPS
    )
    np.testing.assert_array_equal(
        model.locate(far, bags.labels), model.locate(bags, bags.labels)
    )
    assert [len(weight) for weight in model.attention(far)] == [LENGTH] * N
    with pytest.raises(at.AttnscopeError, match="one label per bag"):
        model.locate(far, [1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [at.SingleLocationRegressor, at.SingleLocationClassifier])
@pytest.mark.parametrize("width", [6, 150])
def test_files_read_by_a_cluster(kind, width, tmp_path):
    """Two worker processes of a LocalCluster, narrow and wide tokens: the model of one process."""
    from distributed import Client, LocalCluster

    batch = at.SingleLocation(dim=width, length=5, signal=5.0, noise=0.1).sample(80, seed=1)
    for i in range(20):
        np.save(tmp_path / f"s{i:02d}.npy", batch.tokens[4 * i : 4 * i + 4])
    numbers = kind is at.SingleLocationRegressor
    bags = at.open_bags(tmp_path, batch.target if numbers else batch.target > 0)
    model = kind().fit_batches(bags, passes=10)
    ask = "predict" if numbers else "predict_proba"
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        far = kind().fit_batches(bags.to_dask(), passes=10)
        answers = getattr(far, ask)(bags.to_dask())
    np.testing.assert_allclose(
        answers, getattr(model, ask)(bags), rtol=ROOT_EPS, atol=ROOT_EPS
    )
