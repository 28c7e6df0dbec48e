"""What makes the sentences of exch-13 false."""

import numpy as np
from helpers.mutation import replaced


def _without_context(topics):
    """Topics whose predictions ignore the tokens seen."""

    class Forgetful(topics):
        def predictive(self, x):
            return np.broadcast_to(self.prior @ self.emissions, (len(x), self.vocabulary))

    return Forgetful


def _likely_topic(regrets):
    """The bound log(1/prior) of the most likely topic for every sequence."""
    return lambda task, length: (
        regrets(task, length)[0],
        np.full(task.vocabulary**length, -np.log(task.prior.max())),
    )


def _smaller(share):
    return lambda regrets: lambda *args: (share * regrets(*args)[0], regrets(*args)[1])


MUTATIONS = (
    *replaced("largest", "predictions ignore the context", "Topics", _without_context),
    *replaced("every", "predictions ignore the context", "Topics", _without_context),
    *replaced("prior", "the bound is that of the likeliest topic", "_regrets", _likely_topic),
    *replaced("attained", "regrets are 6 % smaller", "_regrets", _smaller(0.94)),
    *replaced("counts", "regrets are 1 % smaller", "_regrets", _smaller(0.99)),
)
