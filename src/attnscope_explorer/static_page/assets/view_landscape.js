/* The landscape: exact risk over two overlaps, descent directions, stationary points, training paths, as
   attnscope_explorer/views/landscape.py draws them; erf and linear attention alone. */
(function () {
  "use strict";
  const P = () => window.attnscopePanels;
  const OVERLAPS = ["kappa", "eta", "theta", "nu", "rho"];
  const FINE = 61, ARROWS = 15; // points per axis of the risk and of the arrows
  const ARROW = 0.55, BARB = 0.38, SPREAD = (28 * Math.PI) / 180, STEP = 2e-3, LOG_FROM = 100, DEEPEST = 0.05, NEAR = 0.05, APART = 0.13; // as there

  const lawOf = (s) => ({ gamma: Math.sqrt(s.gamma2), signal: s.signal ?? Math.sqrt(s.dim / 2), length: s.length });

  // Whether some unit vectors have these overlaps: as gram() of the library, through what is left outside the span
  function possible([kap, eta, the, nu, rho]) {
    const p = 1 - kap * kap - eta * eta, q = 1 - the * the - nu * nu, x = rho - kap * the - eta * nu;
    return (p + q) / 2 - Math.hypot((p - q) / 2, x) >= -1e-9;
  }

  const placed = (s, a, b) => OVERLAPS.map((name) => (name === s.x ? a : name === s.y ? b : s[name]));

  function heat(s, law) {
    const excess = window.attnscopeRisk.excess[s.predictor], axis = P().linspace(-1, 1, FINE);
    const risk = axis.map((b) => axis.map((a) => {
      const o = placed(s, a, b);
      return possible(o) ? excess(o, s.inverse_temperature, law) + s.noise * s.noise : null;
    }));
    const all = risk.flat().filter((x) => x !== null);
    const low = Math.min(...all), log = low > 0 && Math.max(...all) > LOG_FROM * low;
    const trace = { type: "heatmap", x: axis, y: axis, z: log ? risk.map((row) => row.map((x) => (x === null ? null : Math.log10(x)))) : risk,
      customdata: risk, colorscale: "Cividis", name: "risk", zsmooth: "fast",
      hovertemplate: `${s.x} %{x:.3f}<br>${s.y} %{y:.3f}<br>risk %{customdata:.5g}<extra></extra>`,
      colorbar: { title: { text: log ? "log10 risk" : "risk", side: "right" }, thickness: 12, outlinewidth: 0 } };
    if (log) {
      const sorted = all.map(Math.log10).sort((a, b) => a - b);
      Object.assign(trace, { zauto: false, zmin: sorted[Math.floor(DEEPEST * (sorted.length - 1))], zmax: sorted[sorted.length - 1] });
    }
    return { trace: trace, empty: all.length === 0 };
  }

  // Arrows as one line with gaps, each tail, tip, barb, tip, barb
  function arrows(s, law) {
    const gradient = window.attnscopeRisk.gradient[s.predictor](s.inverse_temperature, law), axis = P().linspace(-1, 1, ARROWS);
    const long = ARROW * (axis[1] - axis[0]), i = OVERLAPS.indexOf(s.x), j = OVERLAPS.indexOf(s.y), found = [];
    axis.forEach((b) => axis.forEach((a) => {
      const o = placed(s, a, b);
      if (!possible(o)) return;
      const flow = window.attnscopeRisk.velocity(o, gradient(o));
      found.push([a, b, flow[i], flow[j], Math.hypot(flow[i], flow[j])]);
    }));
    const most = Math.max(0, ...found.map((x) => x[4])), x = [], y = [];
    found.filter((f) => f[4] > 1e-12 * most).forEach(([a, b, dx, dy, size]) => {
      const u = dx / size, w = dy / size, tip = [a + (long * u) / 2, b + (long * w) / 2];
      const back = (side) => [tip[0] - long * BARB * (Math.cos(SPREAD) * u - side * Math.sin(SPREAD) * w), tip[1] - long * BARB * (Math.cos(SPREAD) * w + side * Math.sin(SPREAD) * u)];
      const [l, r] = [back(1), back(-1)];
      x.push(a - (long * u) / 2, tip[0], l[0], tip[0], r[0], null);
      y.push(b - (long * w) / 2, tip[1], l[1], tip[1], r[1], null);
    });
    return P().thin(x, y, "", "rgba(255,255,255,0.6)", 0, 0);
  }

  // The paths of one outcome as a line with gaps, points that stand still left out; meta.rest: the other overlaps of each point, in thousandths, for the stage
  function paths(s, run, ended, which, leaping) {
    const i = OVERLAPS.indexOf(s.x), j = OVERLAPS.indexOf(s.y), x = [], y = [], rest = [];
    const others = OVERLAPS.map((_, n) => n).filter((n) => n !== i && n !== j);
    run.log.forEach((log, r) => {
      if (ended[r] !== which) return;
      let last = null;
      log.forEach((o) => {
        if (last && Math.abs(o[i] - last[i]) + Math.abs(o[j] - last[j]) < STEP) return;
        x.push(o[i]); y.push(o[j]); rest.push(...others.map((n) => 1000 * o[n]));
        last = o;
      });
      x.push(null); y.push(null); rest.push(0, 0, 0);
    });
    const count = ended.filter((name) => name === which).length, color = window.attnscopeKnobs.colours.paths[which];
    return { mode: "lines", x: x, y: y, meta: { rest: rest, label: `a run on its way, in the end ${which}` }, name: `${count} paths: ${which}`,
      hovertemplate: `a run: ${which}<extra></extra>`, opacity: leaping ? 0.25 : 0.85, line: { color: color, width: leaping ? 0.6 : 1.1 } };
  }

  function marks(s, points, noise2) {
    const colours = window.attnscopeKnobs.colours, i = OVERLAPS.indexOf(s.x), j = OVERLAPS.indexOf(s.y);
    return points.map((p) => {
      const [symbol, size] = colours.symbols[p.kind];
      const mirrored = (n, x) => (OVERLAPS[n] === "rho" ? x : -x); // both predictors are odd
      const other = p.overlaps.map((x, n) => mirrored(n, x));
      return P().points([p.overlaps[i], other[i]], [p.overlaps[j], other[j]], `${p.name}: ${p.kind}, risk ${P().number(p.excess + noise2)}`,
        "", { meta: { heads: [p.overlaps, other], label: `a head at the point ${p.name} (${p.kind})` }, cliponaxis: false,
          hovertemplate: "%{fullData.name}<extra></extra>",
          marker: { symbol: symbol, size: size, color: colours.paths[p.name] || "#ffd400", line: { color: "#111", width: 1.5 } } });
    });
  }

  // Marks of different points that hide each other go to either side of their place; returns the lines to it
  function apart(traces) {
    const places = traces.flatMap((trace) => trace.x.map((_, i) => ({ x: trace.x[i], y: trace.y[i], trace: trace, i: i }))), done = new Set(), x = [], y = [];
    places.forEach((here) => {
      if (done.has(here)) return;
      const close = places.filter((other) => !done.has(other) && Math.abs(other.x - here.x) + Math.abs(other.y - here.y) < NEAR);
      const each = traces.filter((trace) => close.some((other) => other.trace === trace));
      if (each.length < 2) return;
      each.forEach((trace, k) => {
        const side = APART * (k - (each.length - 1) / 2);
        close.filter((other) => other.trace === trace).forEach((other) => { trace.x[other.i] += side; });
        x.push(here.x, here.x + side, null);
        y.push(here.y, here.y, null);
      });
      close.forEach((other) => done.add(other));
    });
    return x.length ? [{ mode: "lines", x: x, y: y, line: { color: "#111", width: 1.2 }, name: "", hoverinfo: "skip" }] : [];
  }

  function rowsOf(points, run, ended, noise2) {
    const number = P().number;
    const rows = points.map((p) => [p.name, p.kind, ...p.overlaps.map((x) => number(Math.abs(x) < 1e-12 ? 0 : x)), number(p.excess + noise2)]);
    if (!run || !ended) return rows;
    const last = run.step.length - 1, median = window.attnscopeTraining.median;
    [...new Set(["oracle", "swapped", ...ended])].forEach((name) => {
      const chosen = ended.map((x, r) => (x === name ? r : -1)).filter((r) => r >= 0);
      if (!chosen.length) return;
      const medians = OVERLAPS.map((_, n) => number(median(chosen.map((r) => Math.abs(run.log[r][last][n])))));
      const risk = median(chosen.map((r) => window.attnscopeDescent.excessAt(run, r, last) + noise2));
      rows.push([`runs: ${name}`, `${chosen.length} of ${ended.length}`, ...medians, number(risk)]);
    });
    return rows;
  }

  function noteOf(s, ended, steps, own, empty) {
    const fixed = OVERLAPS.filter((name) => name !== s.x && name !== s.y).map((name) => `${name} = ${s[name]}`).join(", ");
    const hollow = empty ? "No unit vectors have these overlaps: nothing to colour. " : "";
    const tail = `Colours and arrows at ${fixed}; paths are projected. ${hollow}Rows of runs show medians of absolute values. Computed here, by the closed forms.`;
    if (!ended) return `Training ${s.runs} runs… ${tail}`;
    const counts = ["oracle", "swapped", "undecided", "diverged"].map((name) => [name, ended.filter((x) => x === name).length]).filter(([name, n]) => n || name === "oracle" || name === "swapped");
    return `${ended.length} runs of ${steps} steps: ${counts.map(([name, n]) => `${n} ${name}`).join(", ")}. ${own} ${tail}`;
  }

  window.attnscopeViews = window.attnscopeViews || {};
  window.attnscopeViews.landscape = function (s, show) {
    if (s.x === s.y) return show({ message: "the vertical axis of the landscape must be another overlap than the horizontal one." });
    const law = lawOf(s), noise2 = s.noise * s.noise, { trace, empty } = heat(s, law), field = Object.assign(arrows(s, law), { hoverinfo: "skip" });
    field.line.width = 1;
    const points = window.attnscopePoints.stationary(s.predictor, s.inverse_temperature, law, s.dim);
    const setup = window.attnscopeTraining.setupOf(s);
    const run = window.attnscopeDescent.begin(setup.setup);
    const drawn = (ended) => {
      const leaping = setup.step.size > setup.step.limit;
      const lines = ended ? ["oracle", "swapped", "undecided", "diverged"].filter((name) => ended.includes(name)).map((name) => paths(s, run, ended, name, leaping)) : [];
      const stars = marks(s, points, noise2);
      const panel = { title: "risk", x: s.x, y: s.y, xRange: [-1.04, 1.04], yRange: [-1.04, 1.04], traces: [trace, field, ...lines, ...stars, ...apart(stars)] };
      const figure = P().figure([panel], 1);
      Object.assign(figure.layout.yaxis, { scaleanchor: "x", constrain: "domain" });
      figure.layout.xaxis.constrain = "domain";
      figure.layout.meta.square = true;
      const first = points[0] ? points[0].overlaps : [1, 0, 0, 1, 0];
      const plane = { x: s.x, y: s.y, fixed: Object.fromEntries(OVERLAPS.filter((name) => name !== s.x && name !== s.y).map((name) => [name, s[name]])) };
      figure.layout.meta.stage = { setting: settingOf(s), overlaps: first, label: points[0] ? `a head at the point ${points[0].name} (${points[0].kind})` : "a head at the oracle", plane: plane };
      const notes = window.attnscopeTraining.advice(s, setup, ended, run, true);
      show({ figure: figure, header: ["point", "kind", ...OVERLAPS, "risk"], rows: rowsOf(points, ended && run, ended, noise2), advice: notes,
        note: noteOf(s, ended, setup.setup.steps, setup.sentence, empty), hidden: [s.x, s.y], busy: !ended });
    };
    drawn(null);
    return window.attnscopeTraining.goOn(run, () => {}, () => drawn(window.attnscopeDescent.outcomes(run)));
  };

  // The task and the predictor as the stage wants them; the sequence is the same in every view (attnscope_explorer/stage_data.py)
  function settingOf(s, changed) {
    const base = { dim: s.dim, length: s.length, gamma: Math.sqrt(s.gamma2), signal: s.signal ?? null, noise: s.noise || 0, predictor: s.predictor, inverse_temperature: s.inverse_temperature, seed: 0 };
    return Object.assign(base, changed);
  }

  window.attnscopeLandscape = { lawOf: lawOf, settingOf: settingOf, OVERLAPS: OVERLAPS };
})();
