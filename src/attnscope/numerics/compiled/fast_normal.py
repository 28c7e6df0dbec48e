"""Random numbers for compiled loops over vector lanes: one generator per lane, normals without a
branch.

    bits   xoshiro256++ (Blackman and Vigna 2021), four words of state per lane i: g[i], g[LANES +
        i], ...;
    normals   Box-Muller: sqrt(-2 log U) (cos, sin)(angle). The angle is drawn in [-pi/4, pi/4),
        where short
              polynomials do, and two spare bits of the same word choose the quarter of the circle;
    chi^2   Marsaglia-Tsang (2000): nearly every proposal, a cubed normal, is accepted, so the cost
        does not
              depend on the degrees of freedom.

Exact in law up to the grid of the uniforms: U has 52 bits, so a normal never exceeds sqrt(2 log
2^52) = 8.49, an event of probability 2e-17. A lane draws from its own state only, whatever the
other lanes do.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.errors import bad
from attnscope.numerics.compiled.fast_erf import MAGIC
from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES

__all__ = ["chi_square_pair", "log_positive", "normals", "seed_generators"]

Array = np.ndarray

ONE_BITS = np.uint64(0x3FF0000000000000)  # the bits of 1.0
LOW_BITS = np.int64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
MAGIC_BITS = np.int64(0x4338000000000000)  # the bits of MAGIC
LN2 = math.log(2)
# log((1 + f) / (1 - f)) / f in f^2 for |f| <= .1716, remainder 2e-16
L0 = 2.0000000000000004
L1 = 0.6666666666655292
L2 = 0.40000000061741614
L3 = 0.2857141602110767
L4 = 0.22223434547517906
L5 = 0.18121934431215214
L6 = 0.16837659970680488
# sin(pi t / 2) / t and cos(pi t / 2) in t^2 for |t| <= 1/2, remainders 5e-18 and 5e-17
S0 = 1.5707963267948966
S1 = -0.6459640975062443
S2 = 0.07969262624604301
S3 = -0.004681754132340976
S4 = 0.0001604411507421909
S5 = -3.59864335298231e-06
S6 = 5.633933781537854e-08
C0 = 1.0
C1 = -1.2337005501361513
C2 = 0.25366950789986475
C3 = -0.02086348073494657
C4 = 0.000919259950041661
C5 = -2.520013526428479e-05
C6 = 4.6552961874867623e-07


def seed_generators(seed: int, runs: int, first: int = 0) -> np.ndarray:
    """States (runs, 4) uint64 of generators first, first + 1, ...; the i-th is a function of (seed,
    i) only.

    Word j of generator i is output i of SplitMix64 started at word j of numpy's SeedSequence(seed):
    a bijection of i, so no two generators of a seed share a word.
    """
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise bad("seed", "seed_generators", "an integer >= 0", seed)
    root = np.random.SeedSequence(int(seed)).generate_state(4, np.uint64)
    number = np.arange(first + 1, first + runs + 1, dtype=np.uint64)[:, None]
    # the three constants and shifts are SplitMix64's
    x = root + number * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(forceinline=True, **FUSED_FLAGS)
def _rotate_bits(x: np.uint64, k: int) -> np.uint64:
    return (x << np.uint64(k)) | (x >> np.uint64(64 - k))


@njit(forceinline=True, **FUSED_FLAGS)
def _random_bits(g: Array, i: int) -> np.uint64:
    """64 random bits; advances lane i of g (4 LANES,)."""
    s0 = g[i]
    s1 = g[LANES + i]
    s2 = g[2 * LANES + i]
    s3 = g[3 * LANES + i]
    s2 ^= s0
    s3 ^= s1
    out = _rotate_bits(s0 + (s3 ^ s1), 23) + s0
    g[i], g[LANES + i] = s0 ^ s3, s1 ^ s2
    g[2 * LANES + i], g[3 * LANES + i] = s2 ^ (s1 << np.uint64(17)), _rotate_bits(s3, 45)
    return out


@njit(forceinline=True, **FUSED_FLAGS)
def _one_to_two(bits: np.uint64) -> float:
    """The upper 52 bits as a number in [1, 2)."""
    return np.uint64((bits >> np.uint64(12)) | ONE_BITS).view(np.float64)


@njit(forceinline=True, **FUSED_FLAGS)
def _uniform_number(g: Array, i: int) -> float:
    """Uniform on the multiples of 2^-52 in (0, 1]."""
    return 2.0 - _one_to_two(_random_bits(g, i))


@njit(forceinline=True, **FUSED_FLAGS)
def log_positive(x: float) -> float:
    """log x for a positive normal number, absolute error about 3e-16 (1 + |log x|)."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits - LOW_BITS) >> np.int64(52)
    # in [sqrt(1/2), sqrt(2))
    m = np.int64(bits - (exponent << np.int64(52))).view(np.float64)
    f = (m - 1.0) / (m + 1.0)
    y = f * f
    p = L0 + y * (L1 + y * (L2 + y * (L3 + y * (L4 + y * (L5 + y * L6)))))
    return (np.int64(exponent + MAGIC_BITS).view(np.float64) - MAGIC) * LN2 + f * p


@njit(forceinline=True, **FUSED_FLAGS)
def _normal_pair(g: Array, i: int) -> tuple[float, float]:
    """Two independent standard normals; advances lane i of g by two draws."""
    radius = math.sqrt(-2.0 * log_positive(_uniform_number(g, i)))
    bits = _random_bits(g, i)
    t = _one_to_two(bits) - 1.5
    y = t * t
    sine = t * (S0 + y * (S1 + y * (S2 + y * (S3 + y * (S4 + y * (S5 + y * S6))))))
    cosine = C0 + y * (C1 + y * (C2 + y * (C3 + y * (C4 + y * (C5 + y * C6)))))
    cosine = -cosine if bits & np.uint64(1) else cosine
    swap = (bits & np.uint64(2)) != np.uint64(0)
    first, second = (sine, cosine) if swap else (cosine, sine)
    return radius * first, radius * second


@njit(**FUSED_FLAGS)
def normals(z: Array, g: Array, lanes: int) -> None:
    """Fill z (2 LANES,) with standard normals, two per lane. Not inlined:
    it would be most of the code.
    """
    for i in range(lanes):
        z[i], z[LANES + i] = _normal_pair(g, i)


@njit(forceinline=True, **FUSED_FLAGS)
def _chi_square_of(normal: float, log_uniform: float, shape: float, spread: float) -> float:
    """A chi^2 of 2 (shape + 1/3) degrees of freedom, or -1: rejected."""
    v = 1.0 + spread * normal
    cube = v * v * v
    positive = cube if cube > 0.0 else 1.0
    bound = 0.5 * normal * normal + shape - shape * cube + shape * log_positive(positive)
    return 2.0 * shape * cube if (log_uniform < bound) & (cube > 0.0) else -1.0


@njit(**FUSED_FLAGS)
def _chi_square_retry(g: Array, i: int, shape: float, spread: float) -> float:
    value = -1.0
    while value < 0.0:
        normal, _ = _normal_pair(g, i)
        value = _chi_square_of(normal, log_positive(_uniform_number(g, i)), shape, spread)
    return value


@njit(**FUSED_FLAGS)
def chi_square_pair(out: Array, z: Array, g: Array, degrees: int, lanes: int) -> None:
    """Fill out (2 LANES,) with chi^2 draws of `degrees` and `degrees - 1` degrees of freedom (<= 0
    gives 0).

    z (2 LANES,) is overwritten: the normals of the first proposals.
    """
    normals(z, g, lanes)
    for half in range(2):
        count = degrees - half
        begin = half * LANES
        shape = 0.5 * count - 1.0 / 3.0
        spread = 1.0 / math.sqrt(9.0 * shape)
        for i in range(lanes):
            normal = z[begin + i]
            if count >= 2:
                out[begin + i] = _chi_square_of(
                    normal, log_positive(_uniform_number(g, i)), shape, spread
                )
            else:  # the proposals need two or more
                out[begin + i] = normal * normal if count == 1 else 0.0
        for i in range(lanes):
            if out[begin + i] < 0.0:
                out[begin + i] = _chi_square_retry(g, i, shape, spread)
