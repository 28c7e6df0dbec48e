"""Bags of handwritten digits (the 1,797 images of 8 x 8 pixels inside scikit-learn) of which one
image decides the label.

notation: x_l in [0, 1]^64 the pixels of image l, v in R^64 a fixed random read-out, J the deciding
image, eps the noise.

    y = v.x_J + eps G,   G standard normal;  v standard normal, drawn from `readout_seed`

    rule "max"     J = argmax_l v.x_l over images of any digit: key and value point the same way
    rule "key"     J is the only 0 of the bag; a linear score separates 0 from the other digits
    rule "eight"   J is the only 8 of the bag; no linear score separates 8 from all other digits, so the
        gate has to be non-linear

Images are drawn with replacement; `part` "train" and "test" draw from disjoint halves of the images
(even and odd numbers), so that a test bag has no image of a training bag.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check

__all__ = ["DIGIT_RULES", "DigitBags", "DigitImages", "digit_bags", "digit_images"]

# which digit decides; None: the image with the largest read-out
DIGIT_RULES = {"max": None, "key": 0, "eight": 8}
DIGIT_PARTS = {"all": slice(None), "train": slice(0, None, 2), "test": slice(1, None, 2)}


class DigitImages(NamedTuple):
    """images (1797, 8, 8) in [0, 1]; digit (1797,), the digit that was written."""

    images: np.ndarray
    digit: np.ndarray


class DigitBags(NamedTuple):
    """tokens (n, L, 64) in [0, 1], target (n,), location (n,) 0-based, digit (n, L):
    what each image shows.
    """

    tokens: np.ndarray
    target: np.ndarray
    location: np.ndarray
    digit: np.ndarray


@cache
def digit_images() -> DigitImages:
    """scikit-learn's digits, scaled from 0..16 to 0..1;
    read-only, because every caller shares them.

    >>> import attnscope as at
    >>> found = at.digit_images()
    >>> found.images.shape, found.digit[:5]
    ((1797, 8, 8), array([0, 1, 2, 3, 4]))
    """
    from sklearn.datasets import load_digits

    held = load_digits()
    out = DigitImages(held.images / 16.0, held.target)
    for array in out:
        array.setflags(write=False)
    return out


def digit_bags(
    n: int,
    rule: str = "key",
    length: int = 8,
    noise: float = 0.05,
    part: str = "all",
    seed: int = 0,
    readout_seed: int = 0,
) -> DigitBags:
    """Draw bags of images of digits, of which one decides the label.

    Args:
        n: bags, >= 1.
        rule: which image decides: "max", "key" (the only 0) or "eight" (the only 8).
        length: images in a bag.
        noise: eps >= 0, of the label.
        part: "all" images, or the halves "train" and "test", which share none.
        seed: of the bags.
        readout_seed: of the read-out v: the same task needs the same one.

    >>> bags = digit_bags(100, rule="eight", seed=1)
    >>> bags.tokens.shape, bool((bags.digit[range(100), bags.location] == 8).all()), int((bags.digit == 8).sum())
    ((100, 8, 64), True, 100)
    """
    of = "digit_bags"
    n = check.integer(n, "n", of, 1)
    length = check.integer(length, "length", of, 1)
    noise = check.real(noise, "noise", of, 0)
    if rule not in DIGIT_RULES:
        raise bad("rule", of, "one of " + ", ".join(map(repr, DIGIT_RULES)), rule)
    if part not in DIGIT_PARTS:
        raise bad("part", of, "one of " + ", ".join(map(repr, DIGIT_PARTS)), part)
    check.fits_in_memory(n * length * 64, 8, "tokens", of, "fewer bags at a time")
    rng = np.random.default_rng(check.seed_value(seed, of))
    v = np.random.default_rng(check.seed_value(readout_seed, of)).standard_normal(64)
    return _draw_bags(rng, n, length, DIGIT_RULES[rule], v, noise, DIGIT_PARTS[part])


def _draw_bags(
    rng: np.random.Generator,
    n: int,
    length: int,
    key: int | None,
    v: np.ndarray,
    noise: float,
    part: slice,
) -> DigitBags:
    pixels = digit_images().images.reshape(-1, 64)[part]
    digit = digit_images().digit[part]
    rows = np.arange(n)
    if key is None:
        chosen = rng.integers(len(pixels), size=(n, length))
        location = (pixels @ v)[chosen].argmax(axis=1)
    else:
        chosen = rng.choice(np.flatnonzero(digit != key), size=(n, length))
        location = rng.integers(length, size=n)
        chosen[rows, location] = rng.choice(np.flatnonzero(digit == key), size=n)
    tokens = pixels[chosen]
    target = tokens[rows, location] @ v + noise * rng.standard_normal(n)
    return DigitBags(tokens, target, location, digit[chosen])
