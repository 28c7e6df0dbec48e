/* The knobs as native inputs with labels, from the table of attnscope_explorer/knobs.py: a number has a text box, which is the
   truth, and a slider that moves it. window.attnscopeControls.form(view, values, changed). */
(function () {
  "use strict";
  const make = (kind, name, ...children) => {
    const node = document.createElement(kind);
    if (name) node.className = name;
    node.append(...children);
    return node;
  };
  const drawing = () => window.attnscopeDrawing;

  function choice(name, field, value, turn) {
    const pills = make("div", "pills");
    Object.keys(field.options).forEach((word) => {
      const input = make("input");
      Object.assign(input, { type: "radio", name: "knob-" + name, value: word, checked: word === value });
      input.addEventListener("change", () => turn(name, word));
      pills.append(make("label", "", input, field.options[word]));
    });
    return [make("fieldset", "choice", make("legend", "", field.label), pills)];
  }

  function number(name, field, value, turn) {
    const box = make("input", "box"), slider = make("input", "range"), scale = Object.assign({}, field);
    const text = (x) => (x === null ? field.absent : String(x));
    Object.assign(box, { type: "text", id: "knob-" + name, value: text(value), inputMode: "decimal", autocomplete: "off" });
    Object.assign(slider, { type: "range", id: "slider-" + name, min: 0, max: field.ticks, step: 1, value: value === null ? 0 : drawing().positionOf(value, scale) });
    box.addEventListener("change", () => turn(name, box.value));
    slider.addEventListener("input", () => { box.value = drawing().valueAt(Number(slider.value), scale); turn(name, box.value); });
    const hint = make("small", "", field.hint ? " " + field.hint : "");
    const line = make("label", "line", make("span", "", field.label, hint), box);
    if (name === "seed") {
      const button = make("button", "", "Next draw");
      button.type = "button";
      button.addEventListener("click", () => turn(name, String((Number(box.value) || 0) + 1)));
      return [line, button];
    }
    return [line, make("label", "", make("span", "unseen", field.label + ", slider"), slider)];
  }

  // A form of the view's knobs; `turn(name, text)` is told of every change
  function form(view, values, turn) {
    const knobs = window.attnscopeKnobs.knobs, groups = {};
    window.attnscopeKnobs.views[view].knobs.forEach((name) => {
      const field = knobs[name], row = make("div", "knob", ...(field.options ? choice : number)(name, field, values[name], turn));
      row.dataset.name = name;
      groups[field.group] = groups[field.group] || make("fieldset", "group", make("legend", "", field.group));
      groups[field.group].append(row);
    });
    return Object.values(groups);
  }

  // Set what other means (a button, a link) have turned; hide what does nothing
  function follow(place, values, hidden) {
    place.querySelectorAll(".knob").forEach((row) => {
      const name = row.dataset.name, field = window.attnscopeKnobs.knobs[name], value = values[name];
      row.hidden = hidden.includes(name);
      if (field.options) row.querySelectorAll("input").forEach((input) => { input.checked = input.value === value; });
      else {
        const box = row.querySelector(".box"), slider = row.querySelector(".range"), text = value === null ? field.absent : String(value);
        if (box.value !== text) box.value = text;
        const at = value === null ? 0 : drawing().positionOf(value, field);
        if (slider && Number(slider.value) !== at && document.activeElement !== slider) slider.value = at;
      }
    });
  }

  window.attnscopeControls = { form: form, follow: follow, make: make };
})();
