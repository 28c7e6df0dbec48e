"""Branch-free exponential and error function for compiled loops (numba), so that the loops
vectorise.

    exp_negative(x)   = e^{-x}, x >= 0. With x = n log 2 - r, |r| <= log(2)/2: e^r by a polynomial,
        2^{-n} by
                         its exponent bits.
    erf_given_exp(x, e)  = erf(x), where e = e^{-x^2} is already known (the callers need it anyway).
        |x| <  1/2:  x P(x^2);
        |x| >= 1/2:  sign(x) (1 - e h(|x|)),  h(x) = e^{x^2} erfc(x) by a rational function.
Both sides of the split are computed and one is selected: a branch would stop vectorisation.

Approximate, at the level of rounding: relative error below 5e-16 for e^{-x} (x <= 700; beyond,
e^{-700}, about 1e-304, is returned) and for erf. The coefficients were fitted in 50-digit
arithmetic, by interpolation at Chebyshev nodes and, for h, by least squares with the weight
e^{-x^2} it will meet; the remainders are beside them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS

__all__ = ["erf_given_exp", "exp_negative"]

# e^{-700} is still a normal number, so its exponent bits can be written directly
LARGEST_EXP_ARGUMENT = 700.0
LOG2E = 1.4426950408889634
# log 2 in two parts: n * LN2_HIGH is exact
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
MAGIC = 1.5 * 2.0**52  # adding it rounds to an integer, which then sits in the low bits
# (e^r - 1 - r) / r^2 on |r| <= log(2)/2, remainder 2e-17 of e^r
E2 = 0.5
E3 = 0.16666666666666669
E4 = 0.041666666666624164
E5 = 0.008333333333330065
E6 = 0.0013888888917196719
E7 = 0.00019841269863040545
E8 = 2.4801521322368692e-05
E9 = 2.7557268480310024e-06
E10 = 2.7620075879983367e-07
E11 = 2.5100375832561234e-08
# erf(x) / x in x^2 on |x| <= 1/2, relative remainder 4e-18
P0 = 1.1283791670955126
P1 = -0.37612638903183476
P2 = 0.11283791670925353
P3 = -0.026866170632887928
P4 = 0.00522397737302147
P5 = -0.0008548297753674966
P6 = 0.00012053335124353741
P7 = -1.4845849259707869e-05
P8 = 1.4725865480556744e-06
# h(x) = N(x) / D(x) on [1/2, 6.2], remainder 4e-19 after the factor e^{-x^2}
N0 = 1.0000000000595266
N1 = 1.496924134301071
N2 = 1.118134406406034
N3 = 0.5009810505836745
N4 = 0.14019983341720668
N5 = 0.023171812747565936
N6 = 0.0017839845875883284
D1 = 2.6253033024049723
D2 = 3.080471952144214
D3 = 2.1038709415488923
D4 = 0.9085835859811914
D5 = 0.25007106837103943
D6 = 0.04107143213775388
D7 = 0.0031620167710965257
SERIES_BOUND = 0.5
LARGEST_ERFC_ARGUMENT = (
    26.0  # erfc(26) is below 1e-295; beyond, N and D only need to stay finite
)


@njit(forceinline=True, **FUSED_FLAGS)
def exp_negative(x: float) -> float:
    """e^{-x} for x >= 0 (x above 700 counts as 700)."""
    x = x if x < LARGEST_EXP_ARGUMENT else LARGEST_EXP_ARGUMENT
    shifted = MAGIC - x * LOG2E
    n = shifted - MAGIC  # = -round(x / log 2)
    r = (-x - n * LN2_HIGH) - n * LN2_LOW
    q = E8 + r * (E9 + r * (E10 + r * E11))
    q = E4 + r * (E5 + r * (E6 + r * (E7 + r * q)))
    p = 1.0 + r * (1.0 + r * (E2 + r * (E3 + r * q)))
    bits = (np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)
    return p * np.int64(bits).view(np.float64)  # times 2^n


@njit(forceinline=True, **FUSED_FLAGS)
def erf_given_exp(x: float, e: float) -> float:
    """erf(x), given e = e^{-x^2}."""
    y = x * x
    small = P4 + y * (P5 + y * (P6 + y * (P7 + y * P8)))
    small = x * (P0 + y * (P1 + y * (P2 + y * (P3 + y * small))))
    z = abs(x)
    z = z if z < LARGEST_ERFC_ARGUMENT else LARGEST_ERFC_ARGUMENT
    top = N0 + z * (N1 + z * (N2 + z * (N3 + z * (N4 + z * (N5 + z * N6)))))
    bottom = 1.0 + z * (D1 + z * (D2 + z * (D3 + z * (D4 + z * (D5 + z * (D6 + z * D7))))))
    large = 1.0 - e * (top / bottom)
    large = large if x > 0.0 else -large
    return small if abs(x) < SERIES_BOUND else large
