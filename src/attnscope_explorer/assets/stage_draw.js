/* The picture of the task on stage: attnscopeStage.draw(element, setting).

   Columns are tokens, rows are the key (what the token shows along k* and along the head's k), the attention weight,
   and the value (along v* and along the head's v); below them the prediction and the truth on one line. Outlined
   bars are the task's directions, filled ones the head's. One colour a meaning, as in the curves: background tokens
   blue, the deciding one orange, the truth green. No motion, so none to reduce. stage.js computes. */
(function () {
  "use strict";
  const stage = (window.attnscopeStage = window.attnscopeStage || {});
  const NARROWEST = 13; // pixels of a column: two bars, and a number that can be read
  const WIDEST = 90;
  const ROW = 46, GAP = 20, LEFT = 4; // a row's bars, and the line of text above them

  const make = (kind, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
    Object.keys(attributes).forEach((name) => node.setAttribute(name, attributes[name]));
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const html = (kind, name, text) => {
    const node = document.createElement(kind);
    node.className = name;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const short = (x) => (x === undefined ? "" : Math.abs(x) >= 1e-3 || x === 0 ? Number(x.toPrecision(3)) : x.toExponential(1)).toString();

  // The tokens that fit, in order: the deciding one, and those that the head (else the key) notices most
  function chosen(found, most) {
    const by = found.possible ? found.weights : found.teacherKey;
    const all = by.map((_, l) => l);
    if (all.length <= most) return all;
    const others = all.filter((l) => l !== found.location).sort((a, b) => Math.abs(by[b]) - Math.abs(by[a]));
    const first = found.location < 0 ? [] : [found.location];
    return [...first, ...others.slice(0, most - first.length)].sort((a, b) => a - b);
  }

  // One row: bars from a common zero; series = [[class, numbers], ...]
  function row(svg, at, top, columns, title, series, found) {
    const values = series.flatMap(([, numbers]) => columns.map((l) => numbers[l]));
    const largest = values.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0);
    svg.appendChild(make("text", { x: LEFT, y: top - 6, class: "stage-row" }, `${title} (largest ${short(largest)})`));
    const high = Math.max(0, ...values), low = Math.min(0, ...values), span = high - low || 1;
    const y = (value) => top + (ROW * (high - value)) / span;
    svg.appendChild(make("line", { x1: at.left, x2: at.left + at.width * columns.length, y1: y(0), y2: y(0), class: "stage-zero" }));
    const thick = (at.width - 3) / series.length;
    columns.forEach((l, i) => series.forEach(([kind, numbers], j) => {
      const a = y(Math.max(0, numbers[l])), b = y(Math.min(0, numbers[l]));
      const which = l === found.location ? " decides" : "";
      const box = { x: at.left + i * at.width + 1.5 + j * thick, y: a, width: thick, height: Math.max(b - a, 1) };
      svg.appendChild(make("rect", Object.assign(box, { class: "stage-bar " + kind + which })));
    }));
  }

  // Prediction and truth on one line through 0
  function line(svg, width, top, found) {
    const marks = found.possible ? [found.prediction, found.truth] : [found.truth];
    const reach = 1.15 * Math.max(1, ...marks.map(Math.abs));
    const x = (value) => LEFT + 8 + ((width - 2 * LEFT - 16) * (value + reach)) / (2 * reach);
    svg.appendChild(make("line", { x1: x(-reach), x2: x(reach), y1: top + 12, y2: top + 12, class: "stage-zero" }));
    svg.appendChild(make("line", { x1: x(0), x2: x(0), y1: top + 7, y2: top + 17, class: "stage-zero" }));
    svg.appendChild(make("text", { x: x(0), y: top + 30, class: "stage-tick", "text-anchor": "middle" }, "0"));
    svg.appendChild(make("line", { x1: x(found.truth), x2: x(found.truth), y1: top, y2: top + 24, class: "stage-truth" }));
    const text = make("text", { x: LEFT, y: top - 6, class: "stage-row" });
    text.appendChild(make("tspan", { class: "stage-truth-word" }, "truth " + short(found.truth)));
    if (found.possible) {
      text.appendChild(make("tspan", {}, "   ◆ prediction " + short(found.prediction)));
      const p = x(found.prediction), y = top + 12;
      svg.appendChild(make("path", { d: `M${p - 6} ${y}L${p} ${y - 7}L${p + 6} ${y}L${p} ${y + 7}Z`, class: "stage-prediction" }));
    }
    svg.appendChild(text);
  }

  // The numbers of one token, in words
  function told(found, l) {
    if (found.rows) return `Token ${l + 1}${l === found.location ? " (decides)" : ""}: ${found.rows.map(([title, [[, numbers]]]) => `${title} ${short(numbers[l])}`).join(", ")}.`;
    const head = found.possible
      ? `; for the head k ${short(found.scores[l])}, v ${short(found.values[l])}, weight ${short(found.weights[l])}`
      : "";
    const decides = l === found.location ? " (decides)" : "";
    return `Token ${l + 1}${decides}: along k* ${short(found.teacherKey[l])}, v* ${short(found.teacherValue[l])}${head}.`;
  }

  function picture(found, columns, width) {
    const at = { left: LEFT, width: Math.min(WIDEST, (width - 2 * LEFT) / columns.length) };
    const rows = found.rows || [["key: along k* and k", [["task", found.teacherKey], ["head", found.scores]]],
      ["attention weight", [["head", found.weights]]],
      ["value: along v* and v", [["task", found.teacherValue], ["head", found.values]]]];
    const kept = found.possible ? rows : [["key: along k*", [["task", found.teacherKey]]], ["value: along v*", [["task", found.teacherValue]]]];
    const answered = found.truth !== null;
    const height = kept.length * (ROW + GAP) + 18 + (answered ? GAP + 36 : 0);
    const svg = make("svg", { width: width, height: height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const band = columns.indexOf(found.location);
    if (band >= 0) svg.appendChild(make("rect", { x: at.left + band * at.width, y: GAP - 4, width: at.width, height: kept.length * (ROW + GAP) - GAP + 20, class: "stage-column decides" }));
    svg.appendChild(make("rect", { x: at.left, y: GAP - 4, width: at.width, height: kept.length * (ROW + GAP) - GAP + 20, class: "stage-column read", visibility: "hidden" }));
    kept.forEach(([title, series], i) => row(svg, at, GAP + i * (ROW + GAP), columns, title, series, found));
    const foot = GAP + kept.length * (ROW + GAP) - GAP + 12;
    columns.forEach((l, i) => {
      const crowded = at.width < 24 && l !== found.location && ((l + 1) % 5 !== 0 || (band >= 0 && Math.abs(i - band) * at.width < 30));
      if (crowded) return;
      const kind = "stage-tick" + (l === found.location ? " decides" : "");
      svg.appendChild(make("text", { x: at.left + (i + 0.5) * at.width, y: foot, class: kind, "text-anchor": "middle" }, l + 1));
    });
    if (answered) line(svg, width, foot + GAP + 8, found);
    return { svg: svg, at: at };
  }

  // Arrow keys and the pointer choose a token, whose numbers are told below
  function readable(box, readout, found, columns, drawn) {
    let place = -1;
    const mark = drawn.svg.querySelector(".stage-column.read");
    const show = (i) => {
      place = Math.min(Math.max(i, 0), columns.length - 1);
      mark.setAttribute("x", drawn.at.left + place * drawn.at.width);
      mark.setAttribute("visibility", "visible");
      readout.textContent = told(found, columns[place]);
    };
    drawn.svg.addEventListener("pointermove", (event) => {
      const x = event.clientX - drawn.svg.getBoundingClientRect().left - drawn.at.left;
      const i = Math.floor(x / drawn.at.width);
      if (i >= 0 && i < columns.length) show(i);
    });
    box.onkeydown = (event) => {
      const move = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: columns.length - 1 }[event.key];
      if (move === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      show(move);
      event.preventDefault();
      event.stopPropagation(); // the page has keys of its own
    };
  }

  function fill(element, setting) {
    const found = stage.sequence(setting);
    const sentence = stage.sentence(setting, found);
    const width = Math.max(240, Math.floor(element.clientWidth) || 600);
    const most = Math.floor((width - 2 * LEFT) / NARROWEST);
    const columns = chosen(found, most);
    const drawn = picture(found, columns, width);
    const title = html("p", "stage-title", "The task on stage" + (setting.label ? ": " + setting.label : ""));
    const box = html("div", "stage-box");
    box.tabIndex = 0;
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", sentence + " Arrow keys read the tokens one by one.");
    box.appendChild(drawn.svg);
    const said = html("p", "stage-sentence", sentence);
    const first = found.location < 0 ? `${columns.length} tokens` : `the deciding token and the ${columns.length - 1} others`;
    const left = columns.length < found.length
      ? `Shown: ${first} ${found.possible ? "with the largest weights" : "along k*"}, of ${found.length}. `
      : "";
    const key = html("p", "stage-key");
    const entries = found.rows ? [] : [["task", "outlined: the task's k*, v*"], ["head", "filled: the head's k, v"]];
    if (found.location >= 0) entries.push(["head decides", "the deciding token"]);
    if (found.truth !== null) entries.push(["truth", "truth"]);
    entries.forEach(([kind, text]) => {
      const entry = html("span", "stage-entry");
      entry.appendChild(html("i", "stage-swatch " + kind));
      entry.appendChild(document.createTextNode(text));
      key.appendChild(entry);
    });
    const readout = html("p", "stage-readout", left + (setting.readout || "One drawn sequence, the same for every head."));
    readout.setAttribute("aria-live", "polite");
    readable(box, readout, found, columns, drawn);
    const focused = document.activeElement && element.contains(document.activeElement);
    element.replaceChildren(title, said, box, key, readout);
    element.classList.add("stage");
    if (focused) box.focus({ preventScroll: true });
    return found;
  }

  const shown = new WeakMap(); // element -> setting and width, to draw anew when the width changes
  const watch = typeof ResizeObserver === "undefined" ? null : new ResizeObserver((entries) => entries.forEach(({ target }) => {
    const last = shown.get(target);
    if (last && Math.abs(last.width - target.clientWidth) > 1) stage.draw(target, last.setting);
  }));

  // Draw the setting (stage.js) into the element; returns the numbers that it shows
  stage.draw = function (element, setting) {
    const first = !shown.has(element);
    shown.set(element, { setting: setting, width: element.clientWidth });
    const found = fill(element, setting);
    if (first && watch) watch.observe(element);
    return found;
  };
})();
