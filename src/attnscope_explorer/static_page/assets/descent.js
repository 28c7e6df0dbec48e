/* Projected gradient descent on the exact risk, in the five overlaps: window.attnscopeDescent.

   The step of dynamics/engines/population_exact.py (k*.v* = 0), the laws of starts of dynamics/starts.py, the outcomes
   of dynamics/trajectory.py. Starts of the library's own seeds come with the page where a tour needs them (drawn.js);
   others are drawn here, from the same law by another generator, and the page says so. */
(function () {
  "use strict";
  const ALIGNED = 0.9; // an overlap from here on counts as aligned, as in the library
  const LOGS = 100; // logged points of a run, as on the live page

  const combine = (x, y) => x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3];

  // The overlaps after one step of size alpha with gradient R
  function step(o, R, alpha) {
    const [kap, eta, the, nu, rho] = o;
    const alongK = R[0] * kap + R[1] * eta + R[4] * rho, alongV = R[2] * the + R[3] * nu + R[4] * rho;
    const a = [1 + alpha * alongK, -alpha * R[4], -alpha * R[0], -alpha * R[1]];
    const b = [-alpha * R[4], 1 + alpha * alongV, -alpha * R[2], -alpha * R[3]];
    const rows = [[1, rho, kap, eta], [rho, 1, the, nu], [kap, the, 1, 0], [eta, nu, 0, 1]];
    const aDot = rows.map((row) => combine(a, row)), bDot = rows.map((row) => combine(b, row));
    const sizeA = Math.sqrt(combine(a, aDot)), sizeB = Math.sqrt(combine(b, bDot));
    return [aDot[2] / sizeA, aDot[3] / sizeA, bDot[2] / sizeB, bDot[3] / sizeB, combine(b, aDot) / (sizeA * sizeB)];
  }

  // lam_t = start/(1 + rate t), as InverseTime
  const inverseTemperatureAt = (setup, t) => setup.inverse_temperature / (1 + (setup.decay || 0) * t);

  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  function read(k, v) {
    const a = Math.sqrt(dot(k, k)), b = Math.sqrt(dot(v, v));
    return [k[0] / a, k[1] / a, v[0] / b, v[1] / b, dot(k, v) / (a * b)];
  }

  // Directions estimated from 200 labelled sequences, in law: the frame is (v*, k*, ..) here
  function moments(g, rest, s, law) {
    const n = 200, gam2 = law.gamma * law.gamma, eps2 = s.noise * s.noise, tau2 = gam2 + law.length - 1, b = gam2 / (gam2 + eps2);
    const A = (gam2 + eps2) * g.chi2(n - 1), B = b * A + Math.sqrt((law.length - 1 + b * eps2) * A) * g.normal();
    const kNoise = Math.sqrt(tau2 / n), vNoise = Math.sqrt(tau2 * A) / n;
    const k = [kNoise * g.normal(), law.signal + kNoise * g.normal(), kNoise * rest(s.dim - 2), 0];
    const v = [B / n, vNoise * g.normal(), vNoise * g.normal(), vNoise * rest(s.dim - 3)];
    const share = dot(k, v) / dot(k, k), [eta, kap, nu, the] = read(k, v.map((x, i) => x - share * k[i]));
    return [kap, eta, the, nu, 0];
  }

  // Starts drawn in law; run i has a generator of its own
  function starts(kind, s, law, runs, seed) {
    return Array.from({ length: runs }, (_, i) => {
      const g = window.attnscopeNumbers.generator(seed * 1009 + 17 * i + 1);
      const rest = (m) => Math.sqrt(m > 0 ? g.chi2(m) : 0);
      if (kind === "moments") return moments(g, rest, s, law);
      if (kind === "manifold") return read([g.normal(), 0, rest(s.dim - 2), 0], [0, g.normal(), 0, rest(s.dim - 3)]);
      const k = [g.normal(), g.normal(), rest(s.dim - 2), 0];
      return read(k, [g.normal(), g.normal(), g.normal(), rest(s.dim - 3)]);
    });
  }

  // A run side by side with others, to be moved on piece by piece: setup = {predictor, law, inverse_temperature, decay,
  // stepSize, steps, starts}
  function begin(setup) {
    const every = Math.max(1, Math.floor(setup.steps / LOGS));
    const run = { setup: setup, every: every, done: 0, now: setup.starts.map((o) => o.slice()), step: [0] };
    run.log = run.now.map((o) => [o]);
    run.divergedAt = run.now.map(() => -1);
    return run;
  }

  function gradientAt(run, t) {
    const lam = inverseTemperatureAt(run.setup, t);
    if (!run.gradient || run.lam !== lam) {
      run.gradient = window.attnscopeRisk.gradient[run.setup.predictor](lam, run.setup.law);
      run.lam = lam;
    }
    return run.gradient;
  }

  // Go on until the clock says stop; true when all steps are done
  function advance(run, seconds) {
    const until = performance.now() + 1000 * seconds, total = run.setup.steps;
    while (run.done < total) {
      const gradient = gradientAt(run, run.done);
      run.now = run.now.map((o, i) => {
        if (run.divergedAt[i] >= 0) return o;
        const next = step(o, gradient(o), run.setup.stepSize);
        if (next.every(Number.isFinite)) return next;
        run.divergedAt[i] = run.done;
        return o;
      });
      run.done += 1;
      if (run.done % run.every === 0 || run.done === total) {
        run.step.push(run.done);
        run.now.forEach((o, i) => run.log[i].push(o));
      }
      if (run.done % 16 === 0 && performance.now() > until) break;
    }
    return run.done >= total;
  }

  const excessAt = (run, i, j) => window.attnscopeRisk.excess[run.setup.predictor](
    run.log[i][j], inverseTemperatureAt(run.setup, run.step[j]), run.setup.law);

  function classify(o, theta) {
    const [kap, eta, the, nu] = o;
    if (kap * nu > 0 && Math.abs(kap) >= ALIGNED && Math.abs(nu) >= ALIGNED) return "oracle";
    if (eta * the > 0 && Math.abs(eta) >= ALIGNED && Math.abs(the) >= ALIGNED * theta) return "swapped";
    return "undecided";
  }

  // How each run ended
  function outcomes(run) {
    const lam = inverseTemperatureAt(run.setup, run.done);
    const theta = window.attnscopePoints.swappedTheta(run.setup.predictor, lam, run.setup.law, run.setup.dim);
    return run.log.map((log, i) => (run.divergedAt[i] >= 0 ? "diverged" : classify(log[log.length - 1], theta)));
  }

  window.attnscopeDescent = { step: step, starts: starts, begin: begin, advance: advance, excessAt: excessAt, outcomes: outcomes, inverseTemperatureAt: inverseTemperatureAt, LOGS: LOGS };
})();
