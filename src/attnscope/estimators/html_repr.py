"""HTML of a model and of a diagnosis, for notebooks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sklearn import get_config

from attnscope.estimators.fit.stacking import BASELINES
from attnscope.html_tables import card, paragraph, sentences, table

__all__ = ["HtmlRepr", "diagnosis_html", "model_html"]


class HtmlRepr:
    """Shows a model as a table, instead of scikit-learn's diagram of one box."""

    def _repr_html_(self) -> str:
        return model_html(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The same as a MIME bundle, which notebooks ask for first."""
        plain = {"text/plain": repr(self)}
        if get_config()["display"] != "diagram":  # scikit-learn's way to ask for text alone
            return plain
        return plain | {"text/html": model_html(self)}


def model_html(model: Any) -> str:
    """The parameters, and what fit chose and measured."""
    if not hasattr(model, "fitted_"):
        return card(paragraph(f"{model!r}: not fitted yet; fit(bags, y) does."))
    return card(table(repr(model), ["", ""], _fact_rows(model)))


def _fact_rows(model: Any) -> list[list[str]]:
    """Rows (name, value); after partial_fit there are no held-out losses."""
    rows = [["features", str(model.n_features_in_)]]
    if hasattr(model, "classes_"):
        rows.append(["classes", ", ".join(map(str, model.classes_))])
    losses = {"cv_losses_": "", "cv_mean_pool_losses_": ", mean pooling"}
    loss = "squared error" if model._regression else "minus log probability"
    for name, whose in losses.items():
        if hasattr(model, name):
            mean = float(getattr(model, name).mean())
            rows.append([f"held-out {loss}{whose}", f"{mean:.5g}"])
    if hasattr(model, "stages_"):
        rows.append(["stages", ", ".join(model.stages_)])
    if getattr(model, "components_", None) is not None:
        rows.append(["widest directions used", str(model.components_)])
    if getattr(model, "assumption_", "single") != "single":
        rows.append(["read as", model.assumption_])
    for name, said in BASELINES.items():
        share = getattr(model, f"{name}_share_", 0.0)
        if share:
            rows.append([f"share read from {said}", f"{share:.2f}"])
    if len(model._all_heads) > 1:
        rows.append(["heads", str(len(model._all_heads))])
    return rows


def diagnosis_html(diagnosis: Any) -> str:
    """The text of `str(diagnosis)`, and all its numbers."""
    head, *said = str(diagnosis).splitlines()
    named = [(field.name, getattr(diagnosis, field.name)) for field in fields(diagnosis)]
    rows = [[name, f"{x:.4g}"] for name, x in named if isinstance(x, int | float)]
    rows += [[f"evidence, {name}", f"{x:.4g}"] for name, x in diagnosis.evidence.items()]
    numbers = table("in numbers", ["", ""], rows)
    return card(
        paragraph(head),
        sentences(said),
        f"<details><summary>numbers</summary>{numbers}</details>",
    )
