/* Whose head a point of a figure is: window.attnscopeHeads, for the live page and the plain files.

   The figure says it (attnscope_explorer/stage_data.py): layout.meta.stage has the setting, the head shown at first, the plane of a heat map, a
   typical run of each group, a learning curve; a trace's meta has heads, the other overlaps of its points, or another setting. Loaded before live_stage.js: Dash takes scripts by their names. */
(function () {
  "use strict";
  const NAMES = ["kappa", "eta", "theta", "nu", "rho"];
  const BAGS = 6; // buttons: the first bags; the others are under the mouse
  const named = (list) => Object.fromEntries(NAMES.map((name, i) => [name, list[i]]));

  // Rounded overlaps may miss those of unit vectors by a digit: the nearest k.v that such vectors have
  function possible(o) {
    const rest = (a, b) => Math.sqrt(Math.max(0, 1 - a * a - b * b));
    const reach = rest(o.kappa, o.eta) * rest(o.theta, o.nu), middle = o.kappa * o.theta + o.eta * o.nu;
    return Object.assign({}, o, { rho: Math.min(middle + reach, Math.max(middle - reach, o.rho)) });
  }

  const number = (x) => Number(Number(x).toPrecision(3));
  const nearest = (list, x) => list.reduce((best, value, i) => (Math.abs(value - x) < Math.abs(list[best] - x) ? i : best), 0);

  // {overlaps, label, setting} of a point of the figure, or null
  function headOf(figure, point) {
    const stage = figure.layout.meta.stage, trace = figure.data[point.curveNumber];
    if (!trace) return null;
    const meta = trace.meta || {}, at = point.pointNumber ?? point.pointIndex;
    if (trace.type === "heatmap" && stage.plane) {
      const o = Object.assign({}, stage.plane.fixed, { [stage.plane.x]: point.x, [stage.plane.y]: point.y });
      return { overlaps: o, label: `a head at ${stage.plane.x} ${number(point.x)}, ${stage.plane.y} ${number(point.y)}` };
    }
    if (meta.rest) {
      const o = { [stage.plane.x]: point.x, [stage.plane.y]: point.y };
      NAMES.filter((name) => !(name in o)).forEach((name, i) => (o[name] = meta.rest[3 * at + i] / 1000));
      return { overlaps: possible(o), label: meta.label };
    }
    if (meta.heads && meta.heads[at]) return { overlaps: possible(named(meta.heads[at])), label: meta.label };
    if (stage.groups) return groupHead(figure, trace, point, at);
    if (stage.bags) return bagHead(stage, trace.type === "heatmap" ? Math.round(point.y) - 1 : meta.bags ? meta.bags[at] : -1);
    if (stage.curve) {
      const i = nearest(stage.curve.x, point.x);
      return { overlaps: named(stage.curve.heads[i]), label: `the head that ${number(stage.curve.x[i])} bags per dimension buy` };
    }
    if (meta.setting) {
      const changed = Object.assign({}, meta.setting), axis = stage.axis;
      if (axis) changed[axis] = axis === "inverse_temperature" ? point.x : Math.round(point.x);
      return { overlaps: named(stage.overlaps), label: meta.label + (axis ? `, ${axis} ${number(point.x)}` : ""), setting: changed };
    }
    return null;
  }

  // One of the bags of the view that fits them
  function bagHead(stage, i) {
    if (!(i in stage.bags)) return null;
    return { overlaps: named(stage.overlaps), label: `bag ${i + 1}`, setting: { given: stage.bags[i] } };
  }

  // Training: a typical run of the trace's group, at the step under the mouse
  function groupHead(figure, trace, point, at) {
    const stage = figure.layout.meta.stage, steps = figure.layout.meta.steps;
    const name = Object.keys(stage.groups).find((group) => (trace.name || "").startsWith(group)) || Object.keys(stage.groups)[0];
    const paths = figure.layout["xaxis" + (trace.xaxis || "x").slice(1)].title.text !== "step";
    const each = trace.meta && trace.meta.each ? trace.meta.each + 1 : steps.length;
    const i = paths ? Math.min(at % each, steps.length - 1) : nearest(steps, point.x);
    return atStep(figure, name, i);
  }
  function atStep(figure, name, i) {
    const stage = figure.layout.meta.stage, steps = figure.layout.meta.steps;
    const label = `a typical run, ${name}, step ${steps[i]}`;
    return { overlaps: possible(named(stage.groups[name][i])), label: label, setting: { inverse_temperature: stage.inverse_temperatures[i] } };
  }

  // What one can choose without a mouse: points of the landscape, groups of runs, predictors
  function choices(figure) {
    const stage = figure.layout.meta.stage, last = (figure.layout.meta.steps || [0]).length - 1;
    if (stage.groups) return Object.keys(stage.groups).map((name) => [name, atStep(figure, name, last)]);
    const found = [];
    if (stage.bags) return Object.keys(stage.bags).slice(0, BAGS).map((i) => [`bag ${Number(i) + 1}`, bagHead(stage, Number(i))]);
    figure.data.forEach((trace) => {
      const meta = trace.meta || {};
      if (!meta.label) return;
      const word = meta.setting && (meta.choice || meta.setting.predictor);
      if (word && found.some(([, choice]) => choice.word === word)) return;
      if (meta.heads) found.push([trace.name.split(":")[0], { overlaps: possible(named(meta.heads[0])), label: meta.label }]);
      else if (meta.setting) found.push([meta.choice || trace.name, { overlaps: named(stage.overlaps), label: meta.label, setting: meta.setting, word: word }]);
    });
    return found;
  }

  window.attnscopeHeads = { named: named, headOf: headOf, atStep: atStep, choices: choices };
})();
