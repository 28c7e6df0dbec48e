/* Exact risks of erf and linear attention in the five overlaps: window.attnscopeRisk.

   A port of theory/risks/erf_risk.py and linear_risk.py, term by term and in their order, with k*.v* = 0:
   the derivations stand there. law = {gamma, signal, length}; overlaps o = [kappa, eta, theta, nu, rho]. A test
   compares every value with the library's. */
(function () {
  "use strict";
  const erf = (x) => window.attnscopeNumbers.erf(x), erfc = (x) => window.attnscopeNumbers.erfc(x);
  const PI = Math.PI, ROOT_PI = Math.sqrt(Math.PI);
  const FALL = 40; // of the exponent over the range of V's integral, as in the library

  // Nodes and weights of Gauss and Legendre on [0, 1], by Newton's method
  function legendre(n) {
    const nodes = [], weights = [];
    for (let i = 1; i <= n; i++) {
      let x = Math.cos((PI * (i - 0.25)) / (n + 0.5)), slope = 0;
      for (let again = 0; again < 100; again++) {
        let p = 1, before = 0;
        for (let j = 1; j <= n; j++) [p, before] = [((2 * j - 1) * x * p - (j - 1) * before) / j, p];
        slope = (n * (x * p - before)) / (x * x - 1);
        const step = p / slope;
        x -= step;
        if (Math.abs(step) < 1e-16) break;
      }
      nodes.push((1 - x) / 2);
      weights.push(1 / ((1 - x * x) * slope * slope));
    }
    return { nodes: nodes, weights: weights };
  }
  const RULE = legendre(32);

  // V = Var erf(lam (D kap + gam G)), g2 = lam^2 gam^2
  function erfVariance(a, q, g2) {
    const al = 1 / q, reach = FALL / Math.max(a * a, 1);
    const width = Math.min((4 * g2) / (q * (q + 1)), reach / (al + Math.sqrt(al * al + reach)));
    let total = 0;
    RULE.nodes.forEach((x, i) => {
      const y = 1 + Math.pow(al + width * x, 2);
      total += (RULE.weights[i] * Math.exp(-a * a * y)) / y;
    });
    return (4 / PI) * width * total;
  }

  function erfExcess(o, lam, law) {
    const [kap, eta, the, nu, rho] = o;
    const gam2 = law.gamma * law.gamma, D = law.signal, others = law.length - 1;
    const S = Math.sqrt(1 + 2 * lam * lam * gam2), q = Math.sqrt(1 + 4 * lam * lam * gam2);
    const a = (lam * D * kap) / S, A = (lam * gam2) / S, al = 1 / q;
    const e = erf(a), e1 = (2 / ROOT_PI) * Math.exp(-a * a), b = erf(a * al), P = Math.exp(-a * a * (1 + al * al));
    const V = erfVariance(a, q, lam * lam * gam2);
    const C = (2 * lam) / Math.sqrt(PI * (1 + 2 * lam * lam)), root = Math.sqrt(1 + 4 * lam * lam);
    const zeta0 = (2 / PI) * Math.atan2(2 * lam * lam, root);
    const short = Math.pow(erfc(Math.abs(a)), 2);
    const turned = a >= 0 ? 2 * e * (1 - nu) : -2 * e * (1 + nu);
    const leak = Math.pow(rho * C, 2);
    const plain = gam2 * turned + others * zeta0 + (others * leak * 2) / root - others * leak;
    const steep = gam2 * short + (gam2 + D * the * (D * the)) * V - 2 * A * D * eta * the * e1
      + 4 * A * A * eta * rho * a * e1 + 4 * A * D * the * rho * e1 * b - 2 * A * D * the * rho * e1 * e
      + (A * rho * (A * rho) * 8 / PI) * P * al - A * rho * (A * rho) * 4 * a * b * e1 - Math.pow(A * rho * e1, 2);
    const bias = D * the * e + others * C * rho + A * rho * e1;
    return Math.max(plain + steep + bias * bias, 0);
  }

  /* The gradient in the five overlaps at one inverse temperature, as a function: what depends on the inverse temperature alone is
     made once. V = e^(-2w) sum_j c_j w^j, w = a^2, as in dynamics/engines/population_erf.py: no exponential a node. */
  function erfGradient(lam, law) {
    const gam2 = law.gamma * law.gamma, D = law.signal, others = law.length - 1;
    const S = Math.sqrt(1 + 2 * lam * lam * gam2), q = Math.sqrt(1 + 4 * lam * lam * gam2), al = 1 / q;
    const A = (lam * gam2) / S, C = (2 * lam) / Math.sqrt(PI * (1 + 2 * lam * lam));
    const spread = 2 / Math.sqrt(1 + 4 * lam * lam) - 1;
    const series = varianceSeries(q, lam * lam * gam2);
    return function (o) {
      const [kap, eta, the, nu, rho] = o;
      const a = (lam * D * kap) / S, w = a * a;
      const e = erf(a), half = Math.exp(-w), e1 = (2 / ROOT_PI) * half, b = erf(a * al);
      const b1 = (2 / ROOT_PI) * Math.exp(-w * al * al), P = half * Math.exp(-w * al * al);
      let sum = 0;
      for (let j = series.length - 1; j >= 0; j--) sum = sum * w + series[j];
      const V = w > 300 ? 0 : half * half * sum;
      const M = D * the * e + A * rho * e1 + others * C * rho;
      const W = (8 / PI) * P * al - 4 * a * b * e1 - e1 * e1;
      const Va = 2 * e1 * (b - e);
      const Wa = (-16 / PI) * P * al * a * (1 + al * al) - 4 * b * e1 - 4 * a * al * b1 * e1 + 8 * w * b * e1 + 4 * a * e1 * e1;
      const weight = gam2 + D * the * (D * the);
      const Ra = gam2 * 2 * e1 * (e - nu) + weight * Va + 4 * A * D * eta * the * a * e1
        + 4 * A * A * eta * rho * e1 * (1 - 2 * w)
        + 2 * A * D * the * rho * e1 * (-2 * a * (2 * b - e) + 2 * al * b1 - e1) + A * rho * (A * rho) * Wa
        + 2 * M * (D * the * e1 - 2 * a * A * rho * e1);
      const Reta = -2 * A * D * the * e1 + 4 * A * A * rho * a * e1;
      const Rthe = 2 * D * D * the * V - 2 * A * D * eta * e1 + 2 * A * D * rho * e1 * (2 * b - e) + 2 * M * D * e;
      const Rrho = 4 * A * A * eta * a * e1 + 2 * A * D * the * e1 * (2 * b - e) + 2 * A * A * rho * W
        + 2 * others * rho * C * C * spread + 2 * M * (A * e1 + others * C);
      return [(Ra * lam * D) / S, Reta, Rthe, -2 * gam2 * e, Rrho];
    };
  }

  // c_j = (4/pi) int_{1/q}^1 y^j/(j! (2 - y)) dx, y = 1 - x^2, until what follows is below rounding
  function varianceSeries(q, g2) {
    const al = 1 / q, width = (4 * g2) / (q * (q + 1)), most = 1 - al * al;
    const y = RULE.nodes.map((x) => 1 - Math.pow(al + width * x, 2));
    const out = [];
    let terms = RULE.weights.map((w, i) => ((4 / PI) * width * w) / (2 - y[i]));
    for (let j = 0; j < 60 && Math.pow(most / 2, j) > 1e-17; j++) {
      out.push(terms.reduce((a, b) => a + b, 0));
      terms = terms.map((t, i) => (t * y[i]) / (j + 1));
    }
    return out.length ? out : [0];
  }

  function linearExcess(o, lam, law) {
    const [kap, eta, the, nu, rho] = o;
    const g2 = law.gamma * law.gamma, s = law.signal, others = law.length - 1;
    const al = lam * s * kap, be = s * the;
    const miss = al >= 0 ? Math.pow(1 - al, 2) + 2 * al * (1 - nu) : Math.pow(1 + al, 2) - 2 * al * (1 + nu);
    const norm = miss + Math.pow(lam * be, 2) - 2 * lam * be * eta + 2 * al * lam * be * rho;
    const M = al * be + lam * rho * (g2 + others), spread = lam * lam * (1 + rho * rho);
    return Math.max(g2 * norm + g2 * g2 * spread + others * spread + M * M, 0);
  }

  function linearGradient(lam, law) {
    const g2 = law.gamma * law.gamma, s = law.signal, others = law.length - 1;
    return function (o) {
      const [kap, eta, the, nu, rho] = o;
      const al = lam * s * kap, be = s * the, M = al * be + lam * rho * (g2 + others);
      const Ral = 2 * g2 * (al - nu + lam * be * rho) + 2 * M * be;
      const Rbe = 2 * g2 * lam * (lam * be - eta + al * rho) + 2 * M * al;
      const Rrho = 2 * g2 * al * lam * be + 2 * lam * lam * rho * (g2 * g2 + others) + 2 * M * lam * (g2 + others);
      return [Ral * lam * s, -2 * g2 * lam * be, Rbe * s, -2 * g2 * al, Rrho];
    };
  }

  // d/dt of the overlaps under gradient flow on the spheres (dynamics/gradient_flow.py)
  function velocity(o, R) {
    const [kap, eta, the, nu, rho] = o;
    const a = R[0] * kap + R[1] * eta + R[4] * rho, b = R[2] * the + R[3] * nu + R[4] * rho;
    return [a * kap - (R[0] + R[4] * the), a * eta - (R[1] + R[4] * nu), b * the - (R[2] + R[4] * kap),
      b * nu - (R[3] + R[4] * eta), (a + b) * rho - (R[0] * the + R[1] * nu + R[4]) - (R[2] * kap + R[3] * eta + R[4])];
  }

  // What frames the predictors at the oracle: best affine predictor and mean (tasks/planted/single_location.py)
  const affineExcess = (law) => (Math.pow(law.gamma, 2) * (law.length - 1)) / (law.length - 1 + Math.pow(law.gamma, 2));
  const nullExcess = (law) => Math.pow(law.gamma, 2);

  window.attnscopeRisk = {
    ORACLE: [1, 0, 0, 1, 0],
    excess: { erf: erfExcess, linear: linearExcess },
    gradient: { erf: erfGradient, linear: linearGradient },
    erfVariance: erfVariance, velocity: velocity, affineExcess: affineExcess, nullExcess: nullExcess,
  };
})();
