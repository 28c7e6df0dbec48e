/* While a slider moves: the figure by a request of our own, drawn at once; the framework's chain of callbacks brings texts,
   table, code and address when the slider rests. window.attnscopeQuick, of the live page alone.

   One request is under way at a time, and the newest position waits for it: answers cannot overtake each other. A figure
   says of which knobs it is (layout.meta.key), and the place where it is drawn holds on to that, so that the chain's own
   answer for the same knobs is not drawn again, and one for older knobs not at all. */
(function () {
  "use strict";
  const { themed, cut, valueAt } = window.attnscopeDrawing;
  let wanted = null, asking = false, drawn = 0;
  let resting = 0, moving = ""; // until when the chain knows only older positions of the slider that moves, and in which view

  const graph = () => document.querySelector("#graph .js-plotly-plot");
  const keyOf = (figure) => figure.layout.meta.key;
  const scaleOf = (name) => JSON.parse(document.querySelector(`[data-knob=${name}]`).dataset.scale);

  // The figure in the page's colours and its place as high as it is: a window that changes size makes Plotly fill its place
  function dressed(figure, frame) {
    const out = themed(cut(figure, frame)), place = document.getElementById("graph");
    if (place) place.style.height = out.layout.height + 18 + "px"; // with its padding and border
    return out;
  }

  // Whether the chain's answer is to be drawn: not if it stands there already, nor if it is of older knobs
  function due(figure) {
    const place = graph(), key = keyOf(figure) || "", shown = place && place.data && place.data.length;
    if (shown && place.attnscopeKey === key && key) {
      place.attnscopeKey = ""; // once: a page that is opened again is drawn again
      return false;
    }
    if (shown && performance.now() < resting && key.startsWith(moving + "?")) return false;
    if (place) place.attnscopeKey = "";
    drawn += 1;
    return true;
  }

  // Every knob of the form as its texts: [{name, value}]
  function values(form) {
    return [...form.querySelectorAll("[id*='\"knob\"']")].map((knob) => {
      const chosen = knob.tagName === "INPUT" ? knob : knob.querySelector("input:checked");
      return { name: JSON.parse(knob.id).name, value: chosen ? chosen.value : "" };
    });
  }

  async function ask() {
    asking = true;
    while (wanted) {
      const body = wanted, before = drawn, place = graph();
      wanted = null;
      const head = { "Content-Type": "application/json" };
      const answer = await fetch("/figure", { method: "POST", headers: head, body: body }).then((x) => (x.ok ? x.json() : {}), () => ({}));
      // what the chain has drawn meanwhile is newer; without a figure the chain says why
      if (answer.figure && drawn === before && place && place === graph()) show(place, answer.figure);
    }
    asking = false;
  }

  function show(place, figure) {
    const out = dressed(figure, null);
    place.attnscopeKey = keyOf(figure);
    // the same configuration, or Plotly would begin anew; the stage lays out the page, which the figure need not wait for
    window.Plotly.react(place, out.data, out.layout, Object.assign({}, place._context)).then(() => window.attnscopeLiveStage.follow(figure));
  }

  document.addEventListener("input", (event) => {
    const row = event.target.closest ? event.target.closest("[data-quick]") : null, form = event.target.form;
    if (!row || event.target.type !== "range" || !form || !graph()) return;
    const name = row.dataset.knob, box = document.getElementById(JSON.stringify({ name: name, type: "knob" }));
    box.value = valueAt(Number(event.target.value), scaleOf(name)); // the chain sets the same when the slider rests
    resting = performance.now() + Number(row.dataset.quick);
    moving = document.querySelector(".output").dataset.view;
    wanted = JSON.stringify({ output: "figure", view: moving, inputs: values(form) });
    if (!asking) ask();
  });

  window.attnscopeQuick = { dressed: dressed, due: due, scaleOf: scaleOf };
})();
