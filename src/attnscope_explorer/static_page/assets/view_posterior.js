/* One sequence: scores, values, exact posterior, attention weights of every predictor, as attnscope_explorer/views/posterior.py
   draws them. Attention looks along k* and reads along v*. The sequence is the library's where the page has it
   (drawn.js), else one of the same law that is drawn here. */
(function () {
  "use strict";
  const P = () => window.attnscopePanels;
  const ORACLE = { kappa: 1, eta: 0, theta: 0, nu: 1, rho: 0 };
  const LARGEST = 1e7; // dimension times tokens, as on the live page
  const NAMES = { sigma: "optimal sigma", erf: "erf", softmax: "softmax", linear: "linear" };

  // A stem per token, the informative one in another colour; tokens count from 1 in the picture
  function stems(title, label, values, where, more) {
    const colours = window.attnscopeKnobs.colours.posterior, traces = [];
    [[false, "background tokens", colours.other], [true, "informative token", colours.informative]].forEach(([informative, name, color]) => {
      const chosen = values.map((_, l) => l).filter((l) => (l === where) === informative);
      const x = chosen.flatMap((l) => [l + 1, l + 1, null]), y = chosen.flatMap((l) => [0, values[l], null]);
      traces.push(P().thin(x, y, "", color, 3));
      traces.push(P().points(chosen.map((l) => l + 1), chosen.map((l) => values[l]), name, color));
    });
    traces.filter((trace) => trace.meta).forEach((trace) => { delete trace.meta; });
    return Object.assign({ title: title, x: "token", y: label, xRange: [0.3, values.length + 0.7], traces: traces }, more);
  }

  window.attnscopeViews = window.attnscopeViews || {};
  window.attnscopeViews.posterior = function (s, show) {
    if (s.dim * s.length > LARGEST) return show({ message: `dimension times tokens of the posterior view must be at most ${LARGEST}, got ${s.dim} times ${s.length}; try a smaller dimension.` });
    const drawn = window.attnscopeDrawn.sequences[[s.dim, s.length, s.gamma2, s.noise, s.seed].join(" ")];
    const words = ["sigma", "erf", "softmax", "linear"], inverse_temperatures = {}, missing = [];
    words.filter((word) => word !== "sigma").forEach((word) => {
      inverse_temperatures[word] = s.tuning === "best" ? window.attnscopeBest.best(word, s).inverse_temperature : s.inverse_temperature;
      if (Number.isNaN(inverse_temperatures[word])) missing.push(word);
    });
    const kept = words.filter((word) => !missing.includes(word)), setting = (word) => window.attnscopeLandscape.settingOf(s, { predictor: word, inverse_temperature: inverse_temperatures[word] ?? 1, seed: s.seed, drawn: drawn, overlaps: ORACLE });
    const found = Object.fromEntries(kept.map((word) => [word, window.attnscopeStage.sequence(setting(word))])), one = found.erf;
    const where = one.location, colours = window.attnscopeKnobs.colours;
    const value = stems("value X·v* and the label", "value", one.teacherValue, where);
    value.traces.unshift(P().dashed([0.3, s.length + 0.7], [one.truth, one.truth], "label", colours.palette[2]));
    const panels = [stems("score X·k*", "score", one.teacherKey, where), value, stems("exact posterior P(J | X)", "probability", one.posterior, where, { yRange: [-0.05, 1.08] })];
    kept.forEach((word) => {
      const title = NAMES[word] + (inverse_temperatures[word] ? `, inverse temperature ${Number(inverse_temperatures[word].toPrecision(3))}` : "");
      const panel = stems(title, "weight", found[word].weights, where);
      panel.traces.filter((trace) => trace.mode === "markers").forEach((trace) => { trace.meta = { setting: { predictor: word, inverse_temperature: inverse_temperatures[word] ?? 1 }, label: NAMES[word] + " at the oracle directions", choice: NAMES[word] }; });
      panels.push(panel);
    });
    const figure = P().figure(panels, 2), first = kept.includes("softmax") ? "softmax" : "erf";
    figure.layout.meta.stage = { setting: setting(first), overlaps: window.attnscopeRisk.ORACLE, label: NAMES[first] + " at the oracle directions" };
    show({ figure: figure, hidden: s.tuning === "best" ? ["inverse_temperature"] : [], rows: rowsOf(found, kept),
      header: ["predictor", "weight on the true token", "largest weight on token", "prediction", "squared error"], note: noteOf(s, one, drawn, missing) });
    return () => {};
  };

  function rowsOf(found, kept) {
    const number = P().number, first = found[kept[0]];
    const row = (name, weights, prediction) => [name, number(weights[first.location]), String(weights.indexOf(Math.max(...weights)) + 1), number(prediction), number(Math.pow(prediction - first.truth, 2))];
    return [...kept.map((word) => row(NAMES[word], found[word].weights, found[word].prediction)), row("Bayes: E[Y | X]", first.posterior, first.bayes)];
  }

  function noteOf(s, one, drawn, missing) {
    const where = drawn ? "The sequence is the one of attnscope explore for this seed." : "The sequence is drawn in this page: attnscope explore draws another of the same law.";
    const left = missing.length ? ` The best inverse temperature of ${missing.join(", ")} is not in the table here: attnscope explore finds it.`
      : s.tuning === "best" ? " Softmax's best inverse temperature is read off the table of its risks." : "";
    return `The label ${P().number(one.truth)} was decided by token ${one.location + 1}; the exact posterior gives it probability ${P().number(one.posterior[one.location])}. `
      + `Attention looks along the true key k*, so a weight is not a probability unless the predictor makes it one. ${where}${left}`;
  }
})();
