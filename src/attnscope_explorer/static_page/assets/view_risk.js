/* Excess risk at the oracle directions against inverse temperature, dimension or length, as attnscope_explorer/views/risk.py draws it:
   erf and linear attention by their closed forms, softmax, optimal sigma and Bayes between computed points.
   window.attnscopeBest has what the posterior view shares. */
(function () {
  "use strict";
  const P = () => window.attnscopePanels, T = () => window.attnscopeBetween;
  const LOWEST = 1e-40, HIGHEST = 30; // drawn from here to so many times the risk of the mean, as there
  const SPANS = { dim: [5, 1e6, 17], length: [2, 1000, 12] }, FIXED = 41;
  const RATIO = 1.6; // of neighbouring inverse temperatures in the coarse search, as in the library
  const LABELS = { erf: "erf", softmax: "softmax", linear: "linear", sigma: "optimal sigma" };

  const lawOf = (s) => window.attnscopeLandscape.lawOf(s);
  const placeOf = (s, inverse_temperature) => ({ gamma2: s.gamma2, signal: lawOf(s).signal, length: s.length, inverse_temperature: inverse_temperature });

  // Log excess at the oracle; NaN where a table has none
  function logExcess(word, s, inverse_temperature) {
    if (word === "softmax" || word === "sigma") return T().logExcess(word, placeOf(s, inverse_temperature));
    if (word === "bayes") return s.signal !== null && s.signal !== undefined ? NaN : T().logExcess("bayes", { gamma2: s.gamma2, dim: s.dim, length: s.length });
    return Math.log(window.attnscopeRisk.excess[word](window.attnscopeRisk.ORACLE, inverse_temperature, lawOf(s)));
  }

  function golden(f, low, high) {
    const share = (Math.sqrt(5) - 1) / 2;
    let a = high - share * (high - low), b = low + share * (high - low), fa = f(a), fb = f(b);
    while (high - low > 1e-7) {
      if (fa <= fb) { high = b; b = a; fb = fa; a = high - share * (high - low); fa = f(a); }
      else { low = a; a = b; fa = fb; b = low + share * (high - low); fb = f(b); }
    }
    return (low + high) / 2;
  }

  // {inverse_temperature, log}: the best inverse temperature of a predictor and its log excess there; NaN where a table has none
  function best(word, s) {
    const law = lawOf(s), f = (x) => logExcess(word, s, Math.exp(x));
    const range = word === "softmax" ? [1e-3, 1e2] : [1e-5 / (1 + law.signal), 1e3 * (1 + law.signal + 1 / law.gamma)];
    const [low, high] = range.map(Math.log), count = Math.ceil((high - low) / Math.log(RATIO)) + 1;
    const xs = P().linspace(low, high, count), values = xs.map(f);
    const at = values.reduce((least, value, i) => (value < values[least] || Number.isNaN(values[least]) ? i : least), 0);
    if (Number.isNaN(values[at]) || at === 0 || at === count - 1) return { inverse_temperature: NaN, log: NaN };
    const x = golden(f, xs[at - 1], xs[at + 1]);
    return { inverse_temperature: Math.exp(x), log: f(x) };
  }

  const references = (s) => ({ "best linear predictor": Math.log(window.attnscopeRisk.affineExcess(lawOf(s))), null: Math.log(window.attnscopeRisk.nullExcess(lawOf(s))), Bayes: logExcess("bayes", s) });

  function againstInverseTemperature(s) {
    const xs = P().geomspace(1e-3, 1e2, 61), curves = {};
    ["erf", "softmax", "linear"].forEach((word) => { curves[LABELS[word]] = xs.map((x) => logExcess(word, s, x)); });
    const flat = Object.assign({ "optimal sigma": logExcess("sigma", s) }, references(s));
    Object.keys(flat).forEach((name) => { curves[name] = xs.map(() => flat[name]); });
    return { xs: xs, curves: curves };
  }

  function againstTask(s) {
    const [low, high, few] = SPANS[s.against];
    const xs = [...new Set(P().geomspace(low, high, s.tuning === "best" ? few : FIXED).map(Math.round))];
    const tasks = xs.map((x) => Object.assign({}, s, { [s.against]: x })), curves = {};
    ["erf", "softmax", "linear"].forEach((word) => {
      curves[LABELS[word]] = tasks.map((task) => (s.tuning === "best" ? best(word, task).log : logExcess(word, task, s.inverse_temperature)));
    });
    curves["optimal sigma"] = tasks.map((task) => logExcess("sigma", task));
    const framed = tasks.map(references);
    Object.keys(framed[0]).forEach((name) => { curves[name] = framed.map((row) => row[name]); });
    return { xs: xs, curves: curves };
  }

  const value = (log) => (Number.isFinite(log) ? Math.exp(log) : null);
  const wordOf = (name) => Object.keys(LABELS).find((word) => LABELS[word] === name);

  function figureOf(s, found, optima) {
    const colours = window.attnscopeKnobs.colours, traces = [];
    Object.keys(found.curves).forEach((name) => {
      const word = wordOf(name), color = word ? colours.predictors[word] : colours.references[name];
      const draw = word ? P().line : P().dashed;
      const trace = draw(found.xs, found.curves[name].map(value), name, color);
      if (word) trace.meta = { setting: { predictor: word, inverse_temperature: optima[name] ? optima[name].inverse_temperature || s.inverse_temperature : s.inverse_temperature }, label: name };
      traces.push(trace);
    });
    if (s.against === "inverse_temperature") {
      Object.keys(optima).filter((name) => optima[name].inverse_temperature > 0).forEach((name) => {
        const word = wordOf(name), setting = { predictor: word, inverse_temperature: optima[name].inverse_temperature };
        traces.push(P().points([optima[name].inverse_temperature], [value(optima[name].log)], "best inverse temperature", colours.predictors[word], { meta: { setting: setting, label: name } }));
      });
      const chosen = ["erf", "softmax", "linear"].map((word) => value(logExcess(word, s, s.inverse_temperature)));
      traces.push(P().points(chosen.map(() => s.inverse_temperature), chosen, "chosen inverse temperature", colours.palette[6]));
    }
    const shown = Object.values(found.curves).flat().map(value).filter((x) => x !== null && x > LOWEST);
    const most = HIGHEST * Math.exp(Math.max(...found.curves.null));
    const labels = { inverse_temperature: "inverse temperature", dim: "dimension d", length: "tokens L" };
    const panel = { title: "excess risk", x: labels[s.against], y: "excess risk", logX: true, logY: true, yRange: [Math.min(...shown) / 3, Math.min(Math.max(...shown) * 3, most)], traces: traces };
    const figure = P().figure([panel], 1), first = optima.softmax && optima.softmax.inverse_temperature > 0 ? "softmax" : "erf";
    const setting = window.attnscopeLandscape.settingOf(s, { predictor: first, inverse_temperature: optima[first].inverse_temperature });
    figure.layout.meta.stage = { setting: setting, overlaps: window.attnscopeRisk.ORACLE, label: `${first} at the oracle directions`, axis: s.against };
    return figure;
  }

  function rowsOf(s, found, optima) {
    const rows = [], read = { softmax: "softmax", "optimal sigma": "sigma", Bayes: "bayes" };
    Object.keys(found.curves).forEach((name) => {
      const logs = found.curves[name], word = wordOf(name), table = read[name];
      // what was read off a table has as many digits as its error leaves
      const about = (log) => "≈ " + P().power(log, T().error(table, log) > 0.01 ? 2 : 3);
      const shown = (log) => (Number.isNaN(log) ? "not in the table" : table ? about(log) : P().power(log));
      if (optima[name]) {
        const { inverse_temperature, log } = optima[name];
        const place = Number.isNaN(inverse_temperature) ? "" : table ? "≈ " + inverse_temperature.toPrecision(2) : P().number(inverse_temperature);
        rows.push([name, place, shown(log), "best inverse temperature"]);
        if (s.against === "inverse_temperature") rows.push([name, P().number(s.inverse_temperature), shown(logExcess(word, s, s.inverse_temperature)), "chosen inverse temperature"]);
      } else if (s.against === "inverse_temperature") rows.push([name, "", shown(logs[0]), "any inverse temperature"]);
      if (s.against !== "inverse_temperature") [0, found.xs.length - 1].forEach((i) => rows.push([name, "", shown(logs[i]), `at ${s.against} ${found.xs[i]}`]));
    });
    return rows;
  }

  function noteOf(s, found) {
    const where = "All at the oracle directions k = k*, v = v*; excess is the risk over the squared label noise. erf, linear, best linear and null are computed here by their closed forms. ";
    const names = { softmax: "softmax", "optimal sigma": "sigma", Bayes: "bayes" };
    const missing = Object.keys(names).filter((name) => found.curves[name].some(Number.isNaN));
    const how = s.against === "inverse_temperature" ? "Optimal sigma and the dashed references have no inverse temperature. "
      : s.tuning === "best" ? "Attention each at its best inverse temperature. " : `Attention at inverse temperature ${s.inverse_temperature}. `;
    const ends = missing.map((name) => T().ends(names[name])).join("; ");
    const free = s.signal !== null && s.signal !== undefined ? " Bayes is tabulated for the usual length of the mean, sqrt(d/2)." : "";
    const outside = missing.length ? ` There are gaps: ${ends}.${free} attnscope explore computes the rest.` : "";
    return where + how + T().said(["softmax", "sigma", "bayes"]) + outside;
  }

  window.attnscopeViews = window.attnscopeViews || {};
  window.attnscopeViews.risk = function (s, show) {
    const found = s.against === "inverse_temperature" ? againstInverseTemperature(s) : againstTask(s);
    const optima = Object.fromEntries(["erf", "softmax", "linear"].map((word) => [LABELS[word], best(word, s)]));
    const hidden = ["seed", s.against === "inverse_temperature" ? "tuning" : s.against];
    if (s.tuning === "best" && s.against !== "inverse_temperature") hidden.push("inverse_temperature");
    show({ figure: figureOf(s, found, optima), header: ["curve", "inverse temperature", "excess risk", "where"], rows: rowsOf(s, found, optima), note: noteOf(s, found), hidden: hidden });
    return () => {};
  };

  window.attnscopeBest = { best: best, logExcess: logExcess };
})();
