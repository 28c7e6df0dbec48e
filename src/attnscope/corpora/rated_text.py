"""Short texts with mean ratings by many people: real bags whose label is a number.

People rated each text from -4 (very negative) to +4 (Hutto and Gilbert 2014). The texts and mean
ratings are in the source distribution of vaderSentiment 0.5 (additional_resources), which pip
downloads and does not install. The file, a .tar.gz inside a .zip, is read in memory: nothing is
unpacked to disk, imported, executed or downloaded.

Texts are unchanged, including character references (&amp;). As bags they are the states of their
word pieces (minilm.py), one of which, say "love", may decide most of the rating; which one is not
known.
"""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attnscope.corpora.installed import NotInstalled
from attnscope.corpora.minilm import token_states
from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border.whole_values import whole_numbers

__all__ = ["RATED_DOWNLOAD", "RATED_NAMES", "RatedBags", "RatedText", "load_rated_text"]

# name of the set: name of its file
RATED_NAMES = {
    "tweets": "tweets",
    "movie_reviews": "movieReviewSnippets",
    "product_reviews": "amazonReviewSnippets",
    "editorials": "nytEditorialSnippets",
}
ARCHIVE_NAME = "vaderSentiment-0.5.zip"
ARCHIVE_MEMBER = "additional_resources/hutto_ICWSM_2014.tar.gz"
# the wheel, which pip would prefer, lacks the ratings
RATED_DOWNLOAD = "pip download --no-deps --no-binary :all: vaderSentiment==0.5"
MAX_RATING = 4.0  # ratings lie in [-4, 4]


class RatedBags(NamedTuple):
    """bags[i] (L_i, 384) float32, rating (n,), words[i] the L_i word pieces."""

    bags: list[np.ndarray]
    rating: np.ndarray
    words: list[list[str]]


class RatedText(NamedTuple):
    """Texts with their mean ratings.

    Attributes:
        texts: n texts.
        rating: (n,), the mean rating of each, between -4 and 4.

    >>> import attnscope as at
    >>> import numpy as np
    >>> found = at.RatedText(texts=["good", "bad"], rating=np.array([2.0, -2.5]))
    >>> found.texts[0], found.rating.mean()
    ('good', np.float64(-0.25))
    """

    texts: list[str]
    rating: np.ndarray

    def take(self, rows: np.ndarray) -> RatedText:
        """The texts of these rows, counted from 0."""
        which = whole_numbers(rows, "rows", "RatedText.take", len(self.texts))
        return RatedText([self.texts[i] for i in which.tolist()], self.rating[which])

    def bags(self, layer: int | str = "static") -> RatedBags:
        """The texts as bags of token states at one layer of the encoder ("static", 0 .. 6), without
        [CLS] and [SEP].
        """
        found = token_states(self.texts, [layer])
        inner = [states[0, 1:-1] for states in found.states]
        return RatedBags(inner, self.rating, [words[1:-1] for words in found.words])


def load_rated_text(name: str = "tweets", folder: str | os.PathLike[str] = ".") -> RatedText:
    """The texts of one of RATED_NAMES, in the file's order.

    `load_rated_text("tweets")` has 4,200 tweets, "movie_reviews" 10,605 sentences,
    "product_reviews" 3,708 and "editorials" 5,190.

    Args:
        name: "tweets", "movie_reviews", "product_reviews" or "editorials".
        folder: where pip put the file.

    >>> import attnscope as at
    >>> len(at.load_rated_text("tweets").texts)  # doctest: +SKIP
    4200
    >>> at.load_rated_text("poems")
    Traceback (most recent call last):
        ...
    attnscope.errors.AttnscopeError: name of load_rated_text must be one of tweets, ..., got 'poems'.
    """
    of = "load_rated_text"
    if name not in RATED_NAMES:
        raise bad("name", of, "one of " + ", ".join(RATED_NAMES), name)
    path = Path(folder) / ARCHIVE_NAME
    if not path.is_file():
        raise NotInstalled(
            f"{ARCHIVE_NAME} is not in the folder {folder}; "
            f"download it there with {RATED_DOWNLOAD}, or give its folder"
        )
    member = f"hutto_ICWSM_2014/{RATED_NAMES[name]}_GroundTruth.txt"
    return parse_ratings(_archive_bytes(path, member), str(path))


def _archive_bytes(path: Path, member: str) -> bytes:
    try:
        with zipfile.ZipFile(path) as outer:
            inner = outer.read(f"{ARCHIVE_NAME.removesuffix('.zip')}/{ARCHIVE_MEMBER}")
        with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
            found = archive.extractfile(member)
            if found is None:
                raise KeyError(member)
            return found.read()
    except (OSError, EOFError, KeyError, zipfile.BadZipFile, tarfile.TarError):
        raise AttnscopeError(
            f"{path} must be the source distribution of vaderSentiment 0.5, got a file without "
            f"{member.partition('/')[2]}; try {RATED_DOWNLOAD}."
        ) from None


def parse_ratings(raw: bytes, of: str) -> RatedText:
    """Lines of number, mean rating and text, tab between them.

    >>> parse_ratings(b"1\\t2.5\\tSo lucky.\\r\\n2\\t-1\\tNo.\\r\\n", "example")
    RatedText(texts=['So lucky.', 'No.'], rating=array([ 2.5, -1. ]))
    """
    texts = []
    ratings = []
    for number, line in enumerate(_decode_text(raw).splitlines(), start=1):
        parts = line.split("\t", 2)
        try:
            rating = float(parts[1])
        except (IndexError, ValueError):
            rating = np.nan
        if len(parts) < 3 or not abs(rating) <= MAX_RATING:
            raise AttnscopeError(
                f"{of} must have a number, a rating and a text in every line, got line {number} "
                f"without."
            )
        texts.append(parts[2])
        ratings.append(rating)
    return RatedText(texts, np.array(ratings))


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:  # some files are not UTF-8
        return raw.decode("cp1252", errors="replace")
