"""The explorer's view of bags: uploads, digits as pictures, sentences with their words shaded."""

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

import attnscope as at

pytest.importorskip(
    "dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'"
)

from attnscope.figures.figure import Heat
from attnscope_explorer import uploads
from attnscope_explorer.app import create_app
from attnscope_explorer.compute import answer, cached_view
from attnscope_explorer.page import images, sentence
from attnscope_explorer.pixels import data_uri
from attnscope_explorer.state import (
    default_state,
    to_query,
)
from attnscope_explorer.views.bags import _fitted_names


def state_of(view, change):
    return default_state(view).changed(**change)


def as_sent(content):
    return "data:application/octet-stream;base64," + base64.b64encode(content).decode()


def npz(**arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


BATCH = at.SingleLocation(dim=5, length=4, signal=5.0, noise=0.1).sample(90, seed=1)


def csv_of(batch, words=False):
    y = np.where(batch.target > 0, "up", "down") if words else batch.target
    rows = [
        f"{i},{y[i]}," + ",".join(map(repr, t.tolist()))
        for i, bag in enumerate(batch.tokens)
        for t in bag
    ]
    return "\n".join(["bag,y,a,b,c,d,e", *rows]).encode()


@pytest.mark.parametrize(
    ("name", "content", "classes"),
    [
        ("x.npz", npz(bags=BATCH.tokens, y=BATCH.target), False),
        ("../../etc/x.csv", csv_of(BATCH), False),
        ("C:\\words.csv", csv_of(BATCH, words=True), True),
    ],
)
def test_an_upload_is_fitted_and_shown(name, content, classes, tmp_path, monkeypatch):
    number = uploads.keep_upload(name, as_sent(content))
    # the same file has the same address
    assert uploads.keep_upload(name, as_sent(content)) == number
    path = uploads.upload_path(number)
    assert path.parent == Path(uploads._upload_folder()) and path.stem == str(number)
    state, what, words = answer(
        "bags", [("data", "upload"), ("upload", str(number)), ("loss", "mixture")]
    )
    assert words == "" and to_query(state) == f"data=upload&upload={number}&loss=mixture"
    assert (
        what.header[2] == ("right" if classes else "explained") and str(path) not in what.code
    )
    monkeypatch.chdir(tmp_path)
    # where the copied lines look for the user's own file
    (tmp_path / f"bags{path.suffix}").write_bytes(content)
    names = {}
    exec(what.code, names)
    assert names["classes"] is classes
    heat = next(m for panel in what.figure.panels for m in panel.marks if isinstance(m, Heat))
    np.testing.assert_array_equal(heat.z, np.array(names["attention"]))
    assert json.dumps(what.plotly, allow_nan=False)


def bomb():
    """100 MB of zeros in 100 kB."""
    return npz(bags=np.zeros((50, 50, 5000)), y=np.zeros(50))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.txt", b"", "must be an .npz or a .csv"),
        ("x.npz", b"no zip", "x.npz must be an .npz file of plain arrays"),
        ("x.npz", npz(bags=np.array([{}], dtype=object), y=np.zeros(1)), "Python objects"),
        ("x.npz", npz(bags=BATCH.tokens), "x.npz must hold an array y"),
        ("x.npz", npz(bags=BATCH.tokens[:3], y=BATCH.target[:3]), "at least 12 bags"),
        (
            "x.npz",
            npz(bags=np.where(BATCH.tokens > 2, np.nan, BATCH.tokens), y=BATCH.target),
            "finite",
        ),
        ("x.csv", b"bag,y,a\n1,2\n", "x.csv"),
        ("x.csv", b"\xff\xfe\x00", "x.csv must be a table"),
        ("x.csv", b"sack,y,a\n1,2,3\n", "x.csv must have a column bag"),
        ("x.npz", bomb(), "numbers, got 100 MB unpacked"),
    ],
)
def test_a_bad_upload_is_one_sentence_and_is_not_kept(name, content, words):
    before = set(Path(uploads._upload_folder()).iterdir())
    with pytest.raises(at.AttnscopeError, match=re.escape(words)) as refused:
        uploads.keep_upload(name, as_sent(content))
    assert "\n" not in str(refused.value) and uploads._upload_folder() not in str(
        refused.value
    )
    assert set(Path(uploads._upload_folder()).iterdir()) == before


def test_uploads_are_limited_in_size_and_number():
    with pytest.raises(at.AttnscopeError, match="at most 16 MB"):
        uploads.keep_upload("x.npz", "data:," + "A" * (uploads.UPLOAD_BYTES * 4 // 3 + 300))
    with pytest.raises(at.AttnscopeError, match="did not arrive whole"):
        uploads.keep_upload("x.npz", "data:,?")
    for i in range(uploads.KEPT_UPLOADS + 2):
        last = uploads.keep_upload(
            f"{i}.npz", as_sent(npz(bags=BATCH.tokens, y=BATCH.target))
        )
    assert (
        len(list(Path(uploads._upload_folder()).iterdir())) == uploads.KEPT_UPLOADS
        and uploads.upload_path(last).is_file()
    )
    assert "no longer kept" in answer("bags", [("data", "upload"), ("upload", "123")])[2]
    assert "Choose an .npz or .csv" in answer("bags", [("data", "upload")])[2]
    client = create_app().server.test_client()
    big = client.post(
        "/_dash-update-component",
        data=b"x" * (2 * uploads.UPLOAD_BYTES + 1),
        content_type="application/json",
    )
    assert big.status_code == 413


def test_the_digits_view_finds_the_zero():
    """The chosen token of every bag held out is the image of the only 0;
    looking at another bag does not fit again.
    """
    what = cached_view(state_of("bags", {}))
    assert what.rows[0][0] == "this model" and what.rows[0][3] == "100%"
    assert [chosen for _, _, chosen in what.images].index(True) == np.argmax(
        [weight for _, weight, _ in what.images]
    )
    cached_view(state_of("bags", {"bag": 3}))
    fits = _fitted_names.cache_info().misses
    other = cached_view(state_of("bags", {"bag": 7}))
    assert (
        _fitted_names.cache_info().misses == fits
        and other.code == what.code
        and other.note.startswith("Bag 7:")
    )


def test_digits_are_shown_as_pictures_of_their_pixels():
    """Matplotlib reads the pixels that the view wrote, to half a shade of 255;
    the chosen picture is marked up.
    """
    what = cached_view(state_of("bags", {"bag": 2}))
    bag = at.digit_bags(100, rule="key", part="test", seed=1).tokens[1].reshape(-1, 8, 8)
    assert len(what.images) == len(bag)
    for (source, _, _), ink in zip(what.images, bag):
        pixels = imread(
            io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,")))
        )
        np.testing.assert_allclose(pixels, 1 - ink, atol=0.5 / 255 + 1e-6)
    frames = [figure.children[0] for figure in images(what)]
    assert [type(frame).__name__ == "Mark" for frame in frames] == [
        chosen for _, _, chosen in what.images
    ]
    assert images(cached_view(state_of("bags", {"data": "drawn", "loss": "mixture"}))) == []


def test_a_picture_may_be_wide_and_out_of_range():
    ink = np.array([[-1.0, 0.25, 2.0]])
    pixels = imread(io.BytesIO(base64.b64decode(data_uri(ink).split(",")[1])))
    np.testing.assert_allclose(pixels, [[1.0, 0.75, 0.0]], atol=0.5 / 255 + 1e-6)


def test_sentences_are_shown_with_their_words_shaded():
    try:
        what = cached_view(state_of("bags", {"data": "text"}))
    except at.AttnscopeError as error:
        pytest.skip(str(error))
    words, weights, chosen = zip(*what.words)
    assert sum(chosen) == 1 and weights[chosen.index(True)] > 0.9
    marked = [part for part in sentence(what) if type(part).__name__ == "Mark"]
    assert [m.children for m in marked] == [words[chosen.index(True)]] and float(
        what.rows[0][2].rstrip("%")
    ) > 90
