"""The same float64 numbers whatever the user's JAX configuration, and from a second thread;
the configuration is left alone.
"""

import json
import subprocess
import sys

import pytest

CODE = """
import json, sys, threading
import jax
jax.config.update("jax_enable_x64", sys.argv[1] == "64")
import jax.numpy as jnp
import numpy as np
import attnscope as at

def numbers():
    task = at.SingleLocation(dim=30, length=5)
    o = at.Overlaps(0.4, 0.1, -0.2, 0.5, 0.05)
    out = []
    for p in (at.Erf(0.3), at.Softmax(1.2), at.Componentwise(jnp.tanh, 0.7), at.LinearAttention(0.1), at.optimal_sigma(task)):
        r = at.risk(task, p, o)
        assert type(r.value) is float
        out += [r.value, *at.risk_gradient(task, p, o)]
        out += list(map(float, at.predict(p, task.key, task.value, task.sample(3, seed=0).tokens)))
    out += [task.bayes_risk().value, at.critical_inverse_temperature(task), at.optimal_inverse_temperature(task, at.Softmax)[0]]
    with at.x64():
        f = at.risk_function(task, at.Softmax(1.0))
        out.append(float(jax.grad(lambda lam: f(o, lam))(jnp.asarray(1.2))))
    return out

first = numbers()
second = []
thread = threading.Thread(target=lambda: second.extend(numbers()))
thread.start(); thread.join()
assert first == second
assert jnp.ones(1).dtype == ("float64" if sys.argv[1] == "64" else "float32")
assert bool(jax.config.jax_enable_x64) == (sys.argv[1] == "64")
print(json.dumps(first))
"""


@pytest.mark.slow
def test_same_numbers_under_both_configurations():
    runs = [
        subprocess.run([sys.executable, "-c", CODE, bits], capture_output=True, text=True)
        for bits in ("32", "64")
    ]
    assert all(r.returncode == 0 for r in runs), runs[0].stderr + runs[1].stderr
    narrow, wide = (json.loads(r.stdout) for r in runs)
    assert narrow == wide
    assert len(narrow) > 40
