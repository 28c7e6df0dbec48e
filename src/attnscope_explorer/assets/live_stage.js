/* The live page's own: buttons that turn knobs, the sheet of knobs on a phone, and the stage under the mouse.
   Whose head a point of the figure is, the figure says (attnscope_explorer/stage_data.py); attnscopeStage.draw shows it. No request. */
(function () {
  "use strict";
  const none = () => window.dash_clientside.no_update;
  const { named, headOf, atStep, choices } = window.attnscopeHeads;

  // Buttons of advice: {"name of a knob": "text"}
  document.addEventListener("click", (event) => {
    const button = event.target.closest ? event.target.closest("[data-set]") : null;
    if (button) {
      const values = JSON.parse(button.dataset.set);
      Object.keys(values).forEach((name) => {
        window.dash_clientside.set_props({ type: "knob", name: name }, { value: values[name] });
      });
    }
    const sheet = event.target.closest ? event.target.closest(".sheet") : null;
    if (sheet) open(sheet, sheet.getAttribute("aria-expanded") !== "true");
  });
  document.addEventListener("keydown", (event) => {
    const sheet = document.querySelector(".sheet[aria-expanded=true]");
    if (event.key === "Escape" && sheet) {
      open(sheet, false);
      sheet.focus();
    }
  });
  function open(sheet, yes) {
    sheet.setAttribute("aria-expanded", String(yes));
    document.getElementById("settings").classList.toggle("open", yes);
  }

  let held = null, heldView = null; // the head on stage: it stays while knobs turn
  function shown(figure) {
    const place = document.getElementById("stage"), stage = figure.layout.meta.stage;
    if (!place) return;
    if (!stage) return place.replaceChildren();
    if (!place.querySelector(".stage-canvas")) {
      const canvas = document.createElement("div"), heads = document.createElement("div");
      canvas.className = "stage-canvas";
      heads.className = "stage-heads";
      heads.setAttribute("role", "group");
      heads.setAttribute("aria-label", "Whose head is on stage");
      place.replaceChildren(canvas, heads);
    }
    const head = held || { overlaps: named(stage.overlaps), label: stage.label };
    const setting = Object.assign({}, stage.setting, head.setting, { overlaps: head.overlaps, label: head.label });
    if (!window.attnscopeStage.knows(setting)) return place.replaceChildren();
    window.attnscopeStage.draw(place.querySelector(".stage-canvas"), setting);
    const buttons = choices(figure).map(([text, choice]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.onclick = () => {
        held = choice;
        shown(figure);
        const again = [...place.querySelectorAll(".stage-heads button")].find((other) => other.textContent === text);
        if (again) again.focus();
      };
      return button;
    });
    const focused = place.querySelector(".stage-heads").contains(document.activeElement);
    if (!focused || !held) place.querySelector(".stage-heads").replaceChildren(...buttons);
  }

  const functions = {
    stage: (figure, frame, hover, view) => {
      if (!figure || !figure.layout.meta) return none();
      const by = window.dash_clientside.callback_context.triggered.map((x) => x.prop_id).join();
      if (view !== heldView) held = null;
      heldView = view;
      const stage = figure.layout.meta.stage;
      if (stage && by.includes("hoverData") && hover && hover.points) held = headOf(figure, hover.points[0]) || held;
      if (stage && stage.groups && !by.includes("hoverData")) {
        const steps = figure.layout.meta.steps, names = Object.keys(stage.groups);
        const name = names.find((group) => held && held.label.includes(group)) || names[0];
        held = atStep(figure, name, Math.min(Number(frame) || 0, steps.length - 1));
      }
      if (!by.includes("hoverData")) follow(figure);
      else shown(figure);
      return none();
    },
  };

  // The stage of another figure of the same view
  function follow(figure) {
    const stage = figure.layout.meta.stage;
    if (held && held.setting && !(stage && stage.groups)) held = null; // its numbers are those of the old knobs
    shown(figure);
  }
  window.attnscopeLiveStage = { follow: follow };
  const before = window.dash_clientside || {};
  window.dash_clientside = Object.assign({}, before, { explorer: Object.assign({}, before.explorer, functions) });
})();
