"""The witness reading in chosen directions: against principal components made by scikit-learn, and
what is kept of the choice. Seeds were fixed before looking.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tolerances import FOUR_DIGITS
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

import attnscope as at
from attnscope.estimators.fit import witness_space

D = 70
WITNESS = {"assumption": "witness", "gate": "linear", "n_starts": 1}


@pytest.fixture(scope="module")
def bags():
    """Positive bags hold one token six units along the widest axis."""
    rng = np.random.default_rng(181)
    y = np.arange(80) % 2
    x = rng.standard_normal((80, 6, D)) / np.sqrt(np.arange(1, D + 1))
    x[y == 1, 0, 0] += 6.0
    return x @ np.linalg.qr(rng.standard_normal((D, D)))[0].T, y


def test_directions_are_whitened_principal_components(bags):
    x, y = bags
    model = at.SingleLocationClassifier(components=8, **WITNESS).fit(x, y)
    flat = x.reshape(-1, D)
    z = (flat - flat.mean(0)) / flat.std(0)
    # signs of components are free: the law and its ridge do not see them
    t = PCA(8, svd_solver="full").fit_transform(z).reshape(80, 6, 8)
    peer = at.SingleLocationClassifier(components=None, **WITNESS).fit(t, y)
    assert (model.components_, peer.components_) == (8, None)
    np.testing.assert_allclose(
        model.predict_proba(x), peer.predict_proba(t), atol=FOUR_DIGITS
    )
    np.testing.assert_array_equal(model.locate(x), peer.locate(t))


def test_many_tokens_are_seen_in_a_size_that_the_losses_chose(bags, monkeypatch, tmp_path):
    x, y = bags
    whole = at.SingleLocationClassifier(**WITNESS).fit(x, y)
    assert whole.components_ is None  # 33,600 numbers are few
    monkeypatch.setattr(witness_space, "MAX_TOKEN_NUMBERS", x.size - 1)
    model = at.SingleLocationClassifier(gate="linear", n_starts=1).fit(x, y)
    assert model.assumption_ == "witness"
    losses = model.component_losses_
    assert list(losses) == ["16", "32"]
    assert losses[str(model.components_)] == min(losses.values())
    # one token of six standard units: all but a few bags are classified
    assert roc_auc_score(y, model.predict_proba(x)[:, 1]) > 0.95
    model.save(tmp_path / "model.npz")
    back = at.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.predict_proba(x), model.predict_proba(x))


def test_fewer_tokens_than_features_are_turned_and_nothing_else(bags):
    """components=None reads all 70 features as they are: the same sum, minimised elsewhere."""
    x = bags[0][:20, :3]
    y = bags[1][:20]
    turned = at.SingleLocationClassifier(**WITNESS).fit(x, y)
    plain = at.SingleLocationClassifier(components=None, **WITNESS).fit(x, y)
    assert turned.components_ is None
    new = bags[0][20:]
    np.testing.assert_allclose(
        turned.predict_proba(new), plain.predict_proba(new), atol=FOUR_DIGITS
    )
