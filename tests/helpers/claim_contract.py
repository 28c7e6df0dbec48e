"""What every claim must satisfy, asserted of one run of its check per process. Test files subclass
`ClaimContract` for their claims.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Sequence
from functools import cache

import pytest

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.registry import listed_claims
from attnscope.figures.check import problems
from attnscope.figures.figure import Figure
from attnscope.figures.render_matplotlib import svg
from helpers.mutation import mutations_of, rebuilt_of, survivor
from helpers.paths import ROOT

# Numbers of 0.2.0 against today's: equal to SAME, relative. The stored ones are of another processor,
# whose rounding decides two things: where a search or an iteration ends (then they differ by less than
# SEARCH_SHARE of the tolerance), and which of several settings is the worst one of a comparison whose
# two routes agree to ROUTES_AGREE (then another setting is printed). On one processor all are equal.
SAME = 1e-12
SEARCH_SHARE = 0.02
ROUTES_AGREE = 1e-9

# not those of names and powers: gamma^2, R^400, softmax-1, k0
NUMBER = re.compile(r"(?<![\w^*.-])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|(?<![\w^*])\.\d+")

# claims whose tests take 1.8 CPU seconds or more together, check and pictures: `make reproduce` and
# `make test-all` run them, `make test` looks at their words alone (tests/claims/conftest.py); of each
# paper and of each room some are left
LONG = frozenset(
    {
        "slr-02-closed-form-risk",
        "slr-03-linear-and-dense-fail",
        "slr-05-manifold-invariant",
        "slr-06-convergence-theorem",
        "slr-07-init-manifold",
        "slr-08-sphere-large-lambda",
        "slr-09-sphere-small-lambda",
        "slr-10-sphere-schedule",
        "slr-11-sgd-schedule",
        "slr-12-which-limit",
        "slr-13-swapped-beats-oracle",
        "slr-14-temperature",
        "slr-15-initialisation",
        "slr-16-weights-concentrate",
        "slr-17-noise-and-length",
        "slr-19-other-optimisers",
        "slr-20-finite-samples",
        "slr-21-rates-and-noise-floor",
        "exch-03-posterior-sufficient",
        "exch-06-cme-is-bayes",
        "exch-09-cme-curve",
        "exch-12-chernoff",
        "exch-14-length-invariant-parameter",
        "exch-15-generalisation-gap",
        "exch-16-same-parameter",
        "exch-17-condition-number",
        "around-01-forget-gate",
        "around-02-local-linear",
        "around-03-optimum-over-heads",
        "around-04-how-many-heads",
        "around-05-retrieval-is-coding",
        "around-07-topic-attention",
        "around-08-intrinsic-dimension",
        "around-09-which-neighbours",
        "around-10-rising-smoothness",
        "around-11-shared-layer",
        "around-12-deciding-by-attention",
        "around-13-exact-posterior-agent",
        "around-14-complexity-and-length",
        "beyond-01-softmax-is-bayes",
        "beyond-02-linear-optimum",
        "beyond-03-decay-in-the-spike",
        "beyond-05-activations",
        "beyond-06-several-tokens",
        "beyond-07-varying-importance",
        "beyond-09-bayes-softmax",
        "beyond-10-sparse-tokens",
        "beyond-11-two-steps",
        "beyond-12-correlated-background",
        "beyond-16-probing",
        "beyond-19-sgd-follows-basins",
        "samples-01-curve-attained",
        "samples-02-ends-in-cramer-rao",
        "samples-03-noiseless-threshold",
        "samples-04-hard-phase",
        "samples-05-ridge-fits",
        "samples-06-stability",
        "samples-08-estimator-near",
    }
)


@cache
def numbers_of_0_2_0() -> dict[str, dict]:
    """verdicts.json of 0.2.0 at seed 0, by claim."""
    folder = ROOT / "tests" / "data" / "version_0_2_0"
    saved = json.loads((folder / "verdicts.json").read_text())
    return {entry["id"]: entry for entry in saved["verdicts"]}


def _agree(predicted: float, measured: float, tolerance: float) -> bool:
    """Whether two routes differ by rounding alone, and less than the comparison allows."""
    apart = abs(predicted - measured)
    return apart <= min(tolerance, ROUTES_AGREE * max(abs(predicted), abs(measured)))


@cache
def claim(name: str) -> Claim:
    return listed_claims().claims[name].load()


@cache
def evidence(name: str) -> Evidence:
    return claim(name).check(Context(seed=0))


def ids(paper: str, numbers: Sequence[str]) -> list[str]:
    """The ids of a paper's claims with these numbers; all must exist."""
    begin = tuple(f"{paper}-{number}-" for number in numbers)
    found = [name for name in listed_claims().claims if name.startswith(begin)]
    assert [name.split("-")[1] for name in found] == list(numbers), found
    return found


class ClaimContract:
    """Subclass with @pytest.mark.parametrize("name", ids(...))."""

    def test_verdict_is_the_expected_one(self, name: str):
        assert evidence(name).holds == claim(name).expected, [
            c for c in evidence(name).comparisons if not c.holds
        ]

    def test_every_comparison_breaks_when_one_route_is_perturbed(self, name: str):
        assert not [c.what for c in evidence(name).comparisons if c.perturbed().holds]

    def test_every_tolerance_has_its_reason(self, name: str):
        """In a line of the report's table: at most 160 characters."""
        assert not [
            c for c in evidence(name).comparisons if not 0 < len(c.why.strip()) <= 160
        ]

    def test_figure_draws_and_survives_json(self, name: str):
        figure = evidence(name).figure
        assert svg(figure).lstrip().startswith("<?xml")
        text = figure.to_json()
        assert len(text) < 1_000_000  # the report holds all of them
        assert Figure.from_json(text).to_json() == text
        assert all(panel.x_label and panel.y_label and panel.marks for panel in figure.panels)

    def test_figure_cannot_mislead(self, name: str):
        assert problems(evidence(name).figure) == []

    def test_notes_are_no_list_of_numbers(self, name: str):
        """More than eight numbers are a table: `Evidence(tables=...)`."""
        numbers = NUMBER.findall(evidence(name).notes)
        assert len(numbers) <= 8, numbers

    def test_snippet_runs_and_prints(self, name: str):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(claim(name).snippet, {})
        assert printed.getvalue().strip()

    def test_words_are_in_place(self, name: str):
        it = claim(name)
        assert (
            len(it.title) <= 60
            and it.words
            and it.provenance.line
            and it.hypotheses
            and len(set(it.routes)) == 2
        )

    def test_every_sentence_names_its_comparisons(self, name: str):
        """Each has an assertion, and no number stands outside one."""
        it = claim(name)
        assert not isinstance(it.statement, str), (
            "write the statement as a tuple of sentences"
        )
        for sentence in it.sentences:
            assert sentence.keys, sentence.text
            loose = [number for words in sentence.loose for number in NUMBER.findall(words)]
            assert not loose, (sentence.text, loose)
            assert not [c for c in sentence.text if c in "[]"], sentence.text
        assert it.headline

    def test_every_sentence_has_a_mutation(self, name: str):
        keys = {mutation.key for mutation in mutations_of(claim(name))}
        untested = [s.text for s in claim(name).sentences if not keys & set(s.keys)]
        assert not untested

    def test_keys_of_sentences_are_those_of_comparisons(self, name: str):
        it = claim(name)
        known = {c.key for c in evidence(name).comparisons if c.key}
        named = {key for sentence in it.sentences for key in sentence.keys} | {it.headline}
        assert named <= known, named - known

    def test_comparisons_would_see_half_of_what_they_predict(self, name: str):
        """Or say why the order of magnitude is the content."""
        blind = [
            c for c in evidence(name).comparisons if c.detectable >= 0.5 and not c.coarse
        ]
        assert not blind, [(c.what, c.predicted, c.tolerance) for c in blind]

    def test_numbers_are_those_of_version_0_2_0(self, name: str):
        """Unless the claim is measured better now: REBUILT of its mutations says where and why."""
        old = {entry["what"]: entry for entry in numbers_of_0_2_0()[name]["comparisons"]}
        new = {c.what: c for c in evidence(name).comparisons}
        changed = set(rebuilt_of(claim(name)))
        assert set(old) - set(new) <= changed, set(old) - set(new) - changed
        for what in set(old) & set(new) - changed:
            before, after = old[what], new[what]
            if _agree(
                before["predicted"], before["measured"], before["tolerance"]
            ) and _agree(after.predicted, after.measured, after.tolerance):
                continue
            for field in ("predicted", "measured", "tolerance"):
                a, b = before[field], getattr(after, field)
                size = max(
                    map(abs, (a, b, after.predicted, after.tolerance, after.scale or 0))
                )
                allowed = max(SAME * size, SEARCH_SHARE * after.tolerance)
                assert abs(a - b) <= allowed, (what, field, a, b)

    @pytest.mark.slow
    def test_every_mutation_changes_the_verdict(self, name: str):
        found = [survivor(claim(name), mutation) for mutation in mutations_of(claim(name))]
        assert not list(filter(None, found))

    def test_notes_say_something(self, name: str):
        assert evidence(name).notes
