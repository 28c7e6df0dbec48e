"""Two models fitted to the easy bags, shared by the tests that only ask them."""

import numpy as np
import pytest
from helpers.easy_bags import QUICK, X, Y

from attnscope.estimators.classifier import SingleLocationClassifier
from attnscope.estimators.regressor import SingleLocationRegressor


@pytest.fixture(scope="module")
def model():
    return SingleLocationRegressor(**QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def binary():
    return SingleLocationClassifier(**QUICK).fit(X, np.where(Y > 0, "up", "down"))
