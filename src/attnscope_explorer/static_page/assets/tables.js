/* Values between computed points: window.attnscopeBetween. The same cubic as static_page/tables.py, whose error was
   measured when the page was built; outside its nodes a table has no value. */
(function () {
  "use strict";
  const SCALES = { log: Math.log, root: Math.sqrt, plain: (x) => x };
  const opened = {};

  function open(name) {
    if (opened[name]) return opened[name];
    const record = window.attnscopeTables[name], text = atob(record.values);
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0)), view = new DataView(bytes.buffer);
    const values = Float64Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
    const axes = record.axes.map((axis) => Object.assign({ x: axis.nodes.map(SCALES[axis.scale]) }, axis));
    return (opened[name] = { axes: axes, values: values, record: record });
  }

  // First node and weights of the polynomial through the four nodes around x
  function cubic(nodes, x) {
    let cell = nodes.findIndex((node) => node >= x) - 1;
    if (cell < 0) cell = 0;
    const first = Math.min(Math.max(cell - 1, 0), Math.max(nodes.length - 4, 0)), near = nodes.slice(first, first + 4);
    const weights = near.map((a, i) => near.reduce((product, b, j) => (i === j ? product : (product * (x - b)) / (a - b)), 1));
    return { first: first, weights: weights };
  }

  // Whether a place {knob: value} lies inside the table
  function inside(name, place) {
    return open(name).axes.every((axis) => {
      const value = place[axis.knob];
      return value >= axis.nodes[0] && value <= axis.nodes[axis.nodes.length - 1];
    });
  }

  // Log excess at a place, NaN where the table has none
  function logExcess(name, place) {
    if (!inside(name, place)) return NaN;
    const table = open(name);
    const parts = table.axes.map((axis) => cubic(axis.x, SCALES[axis.scale](place[axis.knob])));
    const sum = (depth, at) => {
      if (depth === parts.length) return table.values[at];
      const { first, weights } = parts[depth], size = table.axes[depth].nodes.length;
      return weights.reduce((total, w, i) => total + (w === 0 ? 0 : w * sum(depth + 1, at * size + first + i)), 0);
    };
    return sum(0, 0);
  }

  // The stated error of a log excess: that of the band it falls into
  function error(name, value) {
    const bands = window.attnscopeTables[name].errors;
    return bands.find(([low]) => value >= low)[1];
  }

  const percent = (log) => { const x = 100 * Math.expm1(log); return (x < 1 ? x.toPrecision(1) : x.toPrecision(2)) + " %"; };
  const LABELS = { softmax: "softmax", sigma: "optimal sigma", bayes: "Bayes" };

  // The stated errors of these tables, in one sentence
  function said(names) {
    const each = names.map((name) => {
      const errors = window.attnscopeTables[name].errors;
      const deep = errors[2][1] > 1.2 * errors[0][1] ? ` (below 1e-10 ${percent(errors[2][1])})` : "";
      return `${LABELS[name]} within ${percent(errors[0][1])}${deep}`;
    });
    const points = names.map((name) => window.attnscopeTables[name].measured).reduce((a, b) => a + b, 0);
    return `Interpolated between computed points: ${each.join(", ")}, twice the largest error found at ${points} places between them.`;
  }

  // Where a table ends, in words
  function ends(name) {
    const range = open(name).axes.map((axis) => `${axis.knob} from ${axis.nodes[0]} to ${axis.nodes[axis.nodes.length - 1]}`);
    return `${LABELS[name]} is tabulated for ${range.join(", ")}`;
  }

  window.attnscopeBetween = { inside: inside, logExcess: logExcess, error: error, said: said, ends: ends };
})();
