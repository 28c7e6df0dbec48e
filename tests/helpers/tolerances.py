"""Tolerances of tests: each says what it leaves room for; a test takes the tightest that holds.

Statistical tests state their own, from their standard errors and a false-alarm rate.
"""

LAST_DIGIT = 1e-15  # one or two roundings of numbers of order 1
FEW_ROUNDINGS = 1e-14  # a short formula: some tens of roundings
FORMULA = 1e-13  # a long formula or a short sum: hundreds of roundings
EXACT = 1e-12  # two exact routes to one number: thousands of roundings, no other error
LONG_SUM = 1e-11  # sums over 1e4 or more terms, or a factorisation of condition 1e4
SOLVED = 1e-10  # leaves room for a linear system or a root on one side
INTEGRAL = 1e-9  # leaves room for a quadrature on one side that is asked for no more
ROOT_EPS = 1e-8  # the square root of eps: minimisers, differences of second order
SEVEN_DIGITS = 1e-7  # leaves room for float32 on one side
SIX_DIGITS = 1e-6  # leaves room for an iteration with a tolerance of its own
FIVE_DIGITS = 1e-5  # leaves room for a finite difference on one side
FOUR_DIGITS = 1e-4  # numbers printed with four digits
THREE_DIGITS = 1e-3  # numbers printed with three digits
