/* Training: risk, distance, overlaps and paths by outcome, while it runs, as attnscope_explorer/views/training.py and
   figures/outcomes.py draw them; population descent of erf and linear attention. window.attnscopeTraining has what the
   landscape shares. */
(function () {
  "use strict";
  const P = () => window.attnscopePanels, D = () => window.attnscopeDescent;
  const FEW = 10, SCATTERED = ["undecided", "on the way", "diverged"], BELOW = -0.03, SMALLEST = 1e-16; // as there
  const PIECE = 0.05; // seconds of work between two looks at the page
  const EVERY = 0.5; // seconds between two pictures of a run on its way

  const sorted = (x) => x.slice().sort((a, b) => a - b);
  function quantile(x, share) {
    const s = sorted(x), place = share * (s.length - 1), low = Math.floor(place), high = Math.ceil(place);
    return s[low] + (s[high] - s[low]) * (place - low);
  }
  const median = (x) => quantile(x, 0.5);

  const USUAL = 4e-3; // the paper's step size

  // As attnscope_explorer/stable_steps.py: the step that was chosen, else the usual one below the stability limit and half the limit beyond
  function stepOf(s, law) {
    const limit = window.attnscopePoints.stableStep(s.predictor, s.inverse_temperature, law, s.dim);
    return { limit: limit, size: s.step_size ?? (limit > USUAL ? USUAL : Number((limit / 2).toPrecision(2))) };
  }

  const number = (x) => P().number(x);
  function advice(s, setup, ended, run, plane) {
    const out = [], { limit, size } = setup.step;
    if (s.step_size === null && size !== USUAL) out.push({ sentence: `The step size follows the stability limit ${number(limit)}, beyond which steps leap over the minimum: it is ${number(size)} here instead of ${USUAL}.`, buttons: [] });
    if (s.step_size !== null && s.step_size > limit) out.push({ warn: true, buttons: [["Use a stable step", { step_size: "auto" }]],
      sentence: `The step size ${number(s.step_size)} is unstable here: the limit is 2 over the largest curvature at the minima, ${number(limit)}. Paths leap to and fro instead of descending.` });
    const swapped = ended ? ended.filter((x) => x === "swapped").length : 0;
    if (swapped) {
      const buttons = [], aside = plane && !(s.x + s.y === "etatheta" || s.x + s.y === "thetaeta");
      if (aside) buttons.push(["Show the (eta, theta) plane", { x: "eta", y: "theta" }]);
      else if (plane) buttons.push(["Back to (kappa, nu)", { x: "kappa", y: "nu" }]);
      if (s.start !== "moments") buttons.push(["Start from moments", { start: "moments" }]);
      out.push({ sentence: `${swapped} of ${ended.length} runs end with the roles swapped: k along v*, v along k*.${aside ? " Where they end is seen best over eta and theta." : ""}`, buttons: buttons });
    }
    return out;
  }

  // The library's own starts where the page has them, else others of the same law
  function setupOf(s) {
    const law = window.attnscopeLandscape.lawOf(s), drawn = window.attnscopeDrawn.starts;
    const own = drawn[[s.start, s.dim, s.seed, ...(s.start === "moments" ? [s.length, s.gamma2, s.noise] : [])].join(" ")];
    const starts = own ? own.slice(0, s.runs) : D().starts(s.start, s, law, s.runs, s.seed), step = stepOf(s, law);
    const sentence = own ? "Starts are those of attnscope explore for this seed." : "Starts are drawn in this page: attnscope explore draws others of the same law.";
    return { sentence: sentence, step: step, setup: { predictor: s.predictor, law: law, dim: s.dim, inverse_temperature: s.inverse_temperature, decay: s.decay || 0, stepSize: step.size, steps: s.steps, starts: starts } };
  }

  // Work in pieces; returns how to stop it
  function goOn(run, piece, done) {
    let stopped = false, told = performance.now();
    const next = () => {
      if (stopped) return;
      if (D().advance(run, PIECE)) return done();
      if (performance.now() - told > 1000 * EVERY) { piece(); told = performance.now(); }
      setTimeout(next, 0);
    };
    setTimeout(next, 0);
    return () => { stopped = true; };
  }

  const label = (name, ended) => `${name}, ${ended.filter((x) => x === name).length} of ${ended.length}`;

  // Traces of values (runs, logs) by outcome
  function grouped(step, values, ended) {
    const colours = window.attnscopeKnobs.colours.outcomes, out = [];
    ["oracle", "swapped", "undecided", "on the way", "diverged"].forEach((name) => {
      const chosen = values.filter((_, r) => ended[r] === name), color = colours[name];
      if (!chosen.length) return;
      if (SCATTERED.includes(name) || chosen.length < FEW) {
        const x = [], y = [];
        chosen.forEach((row) => { x.push(...step, null); y.push(...row, null); });
        out.push(P().thin(x, y, label(name, ended), color, step.length));
        return;
      }
      const at = (share) => step.map((_, t) => quantile(chosen.map((row) => row[t]), share));
      out.push(P().band(step, at(0.025), at(0.975), color));
      const how = name === "swapped" ? P().dashed : P().line;
      out.push(how(step, at(0.5), label(name, ended), color));
    });
    return out;
  }

  function pathTraces(run, ended) {
    const colours = window.attnscopeKnobs.colours.outcomes;
    return ["oracle", "swapped", "undecided", "on the way", "diverged"].filter((name) => ended.includes(name)).map((name) => {
      const x = [], y = [];
      run.log.forEach((log, r) => {
        if (ended[r] !== name) return;
        x.push(...log.map((o) => o[0]), null);
        y.push(...log.map((o) => o[3]), null);
      });
      return P().thin(x, y, label(name, ended), colours[name], run.step.length);
    });
  }

  function figureOf(run, ended, steps) {
    const excess = run.log.map((log, r) => log.map((_, t) => D().excessAt(run, r, t)));
    const distance = run.log.map((log) => log.map((o) => Math.hypot(o[2], o[1], o[4])));
    const along = [0, steps], square = [-1.05, 1.05];
    const limits = (rows) => { const all = rows.flat().filter((x) => x > 0); return all.length ? [Math.min(...all) / 1.3, Math.max(...all) * 1.3] : [0.1, 1]; };
    const off = distance.flat().every((x) => x > 0), far = Math.max(...distance.flat());
    const panels = [{ title: "excess risk", x: "step", y: "excess risk", logY: true, xRange: along, yRange: limits(excess), traces: grouped(run.step, excess, ended) },
      { title: "off the manifold", x: "step", y: "distance", logY: off, xRange: along, yRange: off ? [Math.max(SMALLEST, Math.min(...distance.flat())) / 1.3, far * 1.3] : [BELOW, Math.max(1.05, 1.05 * far)], traces: grouped(run.step, distance, ended) }];
    [["kappa", 0], ["nu", 3], ["eta", 1], ["theta", 2], ["rho", 4]].forEach(([name, i]) => {
      const sizes = run.log.map((log) => log.map((o) => Math.abs(o[i])));
      panels.push({ title: `|${name}|`, x: "step", y: `|${name}|`, xRange: along, yRange: [BELOW, 1.05], traces: grouped(run.step, sizes, ended) });
    });
    panels.push({ title: "paths", x: "kappa", y: "nu", xRange: square, yRange: square, traces: pathTraces(run, ended) });
    const figure = P().figure(panels, 2);
    figure.layout.meta.steps = run.step;
    return figure;
  }

  function rowsOf(run, ended) {
    const last = run.step.length - 1;
    return ["oracle", "swapped", "undecided", "diverged", "on the way"].filter((name) => ended.includes(name)).map((name) => {
      const chosen = ended.map((x, r) => (x === name ? r : -1)).filter((r) => r >= 0);
      const size = (i) => number(median(chosen.map((r) => Math.abs(run.log[r][last][i]))));
      return [name, String(chosen.length), size(0), size(1), size(2), size(3), number(median(chosen.map((r) => D().excessAt(run, r, last))))];
    });
  }

  window.attnscopeViews = window.attnscopeViews || {};
  window.attnscopeViews.training = function (s, show) {
    const setup = setupOf(s), run = D().begin(setup.setup);
    D().advance(run, 0.01);
    const drawn = (finished) => {
      const ended = finished ? D().outcomes(run) : run.log.map(() => "on the way");
      const state = finished ? `${run.done} steps.` : `Step ${run.done} of ${s.steps}: it goes on.`;
      const figure = figureOf(run, ended, s.steps);
      figure.layout.meta.stage = stageOf(s, run, ended);
      show({ figure: figure, header: ["outcome", "runs", "|kappa|", "|eta|", "|theta|", "|nu|", "excess risk"], rows: rowsOf(run, ended),
        note: `Exact population gradient, computed here by the closed forms. ${state} ${setup.sentence} Bands: 95 % of each group; rows show medians at the last step.`,
        hidden: ["noise"], busy: !finished, frames: run.step.length, advice: advice(s, setup, finished ? ended : null, run, false) });
    };
    drawn(run.done >= s.steps);
    return run.done >= s.steps ? () => {} : goOn(run, () => drawn(false), () => drawn(true));
  };

  // A typical run of each group, that of median excess at the end, at every logged step
  function stageOf(s, run, ended) {
    const last = run.step.length - 1, groups = {};
    [...new Set(ended)].forEach((name) => {
      const chosen = ended.map((x, r) => (x === name ? r : -1)).filter((r) => r >= 0);
      chosen.sort((a, b) => D().excessAt(run, a, last) - D().excessAt(run, b, last));
      groups[name] = run.log[chosen[Math.floor((chosen.length - 1) / 2)]];
    });
    const first = Object.keys(groups)[0], inverse_temperatures = run.step.map((t) => D().inverseTemperatureAt(run.setup, t));
    return { setting: window.attnscopeLandscape.settingOf(s), overlaps: groups[first][last], label: `a typical run, ${first}`, groups: groups, inverse_temperatures: inverse_temperatures };
  }

  window.attnscopeTraining = { setupOf: setupOf, goOn: goOn, median: median, advice: advice };
})();
