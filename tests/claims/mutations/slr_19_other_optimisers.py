"""What makes the sentences of slr-19 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_train_engine", "_moments")

RUNS = (
    "40 runs (80 of SGD) instead of 10, at the same cost: the shares can be told from others"
)
REBUILT = {
    "SGD on (k, v): runs at the oracle or swapped": RUNS,
    "Adam on (k, v): runs at the oracle or swapped": RUNS,
    "Adam on Q, K, V, O: runs at the oracle": RUNS,
}


def _wandering(name):
    """Every third run of this optimiser ends as it began."""

    def change(trained):
        def mutated(which, *args):
            t = trained(which, *args)
            cosines = t.cosines.copy()
            cosines[:, ::3, -1] = cosines[:, ::3, 0]
            return t._replace(cosines=cosines) if which == name else t

        return mutated

    return change


def _exchanged(name, every):
    """Key and value exchanged in every so-manieth run of this optimiser."""

    def change(trained):
        def mutated(which, *args):
            t = trained(which, *args)
            cosines = t.cosines.copy()
            cosines[:4, ::every] = cosines[[2, 3, 0, 1], ::every]
            return t._replace(cosines=cosines) if which == name else t

        return mutated

    return change


def _most_at_the_oracle(trained):
    def mutated(*args):
        t = trained(*args)
        swapped = np.flatnonzero(t.outcome == "swapped")[4:]
        cosines = t.cosines.copy()
        cosines[:4, swapped] = cosines[[2, 3, 0, 1]][:, swapped]
        return t._replace(cosines=cosines)

    return mutated


def _norms_fixed(trained):
    def mutated(*args):
        t = trained(*args)
        return t._replace(norms=np.repeat(t.norms[:, :, :1], t.norms.shape[2], axis=2))

    return mutated


def _risk_of_unit_vectors(trained):
    """The exact risk without the factor |v|."""
    return lambda *args: trained(*args)._replace(exact=trained(*args).exact * 1.4)


MUTATIONS = (
    *replaced(
        "sgd-runs",
        "a third of the SGD runs stay",
        "_train_engine",
        _wandering("SGD on (k, v)"),
    ),
    *replaced(
        "adam-runs",
        "a third of the Adam runs stay",
        "_train_engine",
        _wandering("Adam on (k, v)"),
    ),
    *replaced(
        "half", "nine in ten runs end at the oracle", "_train_engine", _most_at_the_oracle
    ),
    *moved("chosen", "CHOSEN_INVERSE_TEMPERATURES", entry="oracle"),
    *moved("chosen", "CHOSEN_INVERSE_TEMPERATURES", entry="swapped"),
    *replaced("chosen", "the norms stay as they were", "_train_engine", _norms_fixed),
    *moved("layers", "AT_ORACLE", up=False),
    *replaced(
        "layers",
        "every other layer ends in the role-swapped structure",
        "_train_engine",
        _exchanged("Adam on Q, K, V, O", 2),
    ),
    *replaced(
        "layers-loss", "the exact risk is 40 % higher", "_train_engine", _risk_of_unit_vectors
    ),
    *replaced(
        "sgd-loss", "the exact risk is 40 % higher", "_train_engine", _risk_of_unit_vectors
    ),
)
