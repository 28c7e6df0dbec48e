/* Stationary points of the exact risk on the two spheres, and their kinds: window.attnscopePoints.

   As theory/optima/landscape.py and sphere_hessian.py: the Riemannian Hessian is J^T H J + sum_i R_i o_i'' in a frame
   of R^5 (four coordinates and one for all the dimensions outside, whose 2 x 2 block is the same for each). H, the
   second derivatives in the overlaps, by fourth-order differences of the exact gradient; eigenvalues by Jacobi's
   rotations. Linear attention's points are found by Newton's method from those of erf, as there. */
(function () {
  "use strict";
  const M = 5; // coordinates: k*, v*, two for the rest of k and v, one outside
  const H = 1e-3; // difference in a = lam s kappa/S, the scale on which erf varies: truncation 1e-12, rounding 1e-13
  const ZERO = 1e-8; // eigenvalues below this share of the largest are zero: the differences are good to 1e-10
  const NEAR = 1e-6, FLAT = 0.75; // as in the library

  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  const unit = (x) => x.map((value) => value / Math.sqrt(dot(x, x)));
  const overlapsOf = (k, v) => [k[0], k[1], v[0], v[1], dot(k, v)];

  function vectorsWith(o) {
    const a = Math.sqrt(Math.max(0, 1 - o[0] * o[0] - o[1] * o[1]));
    const third = a > 1e-8 ? (o[4] - o[0] * o[2] - o[1] * o[3]) / a : 0;
    const last = Math.sqrt(Math.max(0, 1 - o[2] * o[2] - o[3] * o[3] - third * third));
    return [unit([o[0], o[1], a, 0, 0]), unit([o[2], o[3], third, last, 0])];
  }

  // An orthonormal basis of the vectors perpendicular to x
  function perpendicular(x) {
    const out = [];
    for (let i = 0; i < M && out.length < M - 1; i++) {
      let e = x.map((_, j) => (i === j ? 1 : 0));
      for (let twice = 0; twice < 2; twice++) [x, ...out].forEach((y) => { const c = dot(e, y); e = e.map((value, j) => value - c * y[j]); });
      if (Math.sqrt(dot(e, e)) > 0.1) out.push(unit(e));
    }
    return out;
  }

  // T_k x T_v as rows of 2M numbers
  function tangents(k, v) {
    const zero = new Array(M).fill(0);
    return [...perpendicular(k).map((e) => [...e, ...zero]), ...perpendicular(v).map((e) => [...zero, ...e])];
  }

  const jacobian = (k, v) => {
    const e = (i) => Array.from({ length: M }, (_, j) => (i === j ? 1 : 0)), zero = new Array(M).fill(0);
    return [[...e(0), ...zero], [...e(1), ...zero], [...zero, ...e(0)], [...zero, ...e(1)], [...v, ...k]];
  };

  function tangentGradient(first, k, v) {
    const R = first(overlapsOf(k, v)), J = jacobian(k, v);
    const all = Array.from({ length: 2 * M }, (_, j) => R.reduce((sum, r, i) => sum + r * J[i][j], 0));
    return tangents(k, v).map((t) => dot(t, all));
  }

  function secondDerivatives(first, o) {
    const h = first.difference, at = (i, n) => first(o.map((x, j) => (i === j ? x + n * h : x)));
    const columns = o.map((_, i) => {
      const [a, b, c, d] = [at(i, 1), at(i, -1), at(i, 2), at(i, -2)];
      return a.map((x, j) => (8 * (x - b[j]) - c[j] + d[j]) / (12 * h));
    });
    return columns.map((row, i) => row.map((x, j) => (x + columns[j][i]) / 2));
  }

  function hessian(first, k, v) {
    const o = overlapsOf(k, v), R = first(o), second = secondDerivatives(first, o), J = jacobian(k, v), basis = tangents(k, v);
    const pullK = R[0] * o[0] + R[1] * o[1] + R[4] * o[4], pullV = R[2] * o[2] + R[3] * o[3] + R[4] * o[4];
    const moved = basis.map((t) => J.map((row) => dot(row, t)));
    const bent = (s, t) => -pullK * dot(s.slice(0, M), t.slice(0, M)) - pullV * dot(s.slice(M), t.slice(M))
      + R[4] * (dot(s.slice(0, M), t.slice(M)) + dot(s.slice(M), t.slice(0, M)));
    return basis.map((s, i) => basis.map((t, j) => dot(moved[i], second.map((row) => dot(row, moved[j]))) + bent(s, t)));
  }

  // Eigenvalues and vectors (columns) of a symmetric matrix by Jacobi's rotations
  function eigen(matrix) {
    const n = matrix.length, A = matrix.map((row) => row.slice()), Q = A.map((_, i) => A.map((__, j) => (i === j ? 1 : 0)));
    for (let sweep = 0; sweep < 60; sweep++) {
      let off = 0;
      for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) {
        off = Math.max(off, Math.abs(A[p][q]));
        if (A[p][q] === 0) continue;
        const angle = 0.5 * Math.atan2(2 * A[p][q], A[q][q] - A[p][p]), c = Math.cos(angle), s = Math.sin(angle);
        for (let i = 0; i < n; i++) [A[i][p], A[i][q]] = [c * A[i][p] - s * A[i][q], s * A[i][p] + c * A[i][q]];
        for (let i = 0; i < n; i++) [A[p][i], A[q][i]] = [c * A[p][i] - s * A[q][i], s * A[p][i] + c * A[q][i]];
        for (let i = 0; i < n; i++) [Q[i][p], Q[i][q]] = [c * Q[i][p] - s * Q[i][q], s * Q[i][p] + c * Q[i][q]];
      }
      if (off < 1e-15) break;
    }
    return { values: A.map((row, i) => row[i]), vectors: Q };
  }

  function newton(first, k, v) {
    for (let again = 0; again < 20; again++) {
      const basis = tangents(k, v), g = tangentGradient(first, k, v);
      if (Math.sqrt(dot(g, g)) < 1e-13) break;
      const { values, vectors } = eigen(hessian(first, k, v)), largest = Math.max(...values.map(Math.abs));
      const part = values.map((value, i) => (Math.abs(value) <= 1e-8 * largest ? 0 : -dot(vectors.map((row) => row[i]), g) / value));
      const inside = vectors.map((row) => dot(row, part));
      const move = Array.from({ length: 2 * M }, (_, j) => inside.reduce((sum, x, i) => sum + x * basis[i][j], 0));
      const scale = Math.min(1, 0.3 / Math.max(Math.sqrt(dot(move, move)), 1e-300));
      k = unit(k.map((x, i) => x + scale * move[i]));
      v = unit(v.map((x, i) => x + scale * move[M + i]));
    }
    return [k, v];
  }

  function nameOf([kap, eta, the, nu]) {
    if (Math.min(Math.abs(kap), Math.abs(nu)) > 1 - NEAR) return Math.min(kap, nu) > 0 ? "oracle" : "reversed";
    if (Math.max(...[kap, eta, the, nu].map(Math.abs)) < NEAR) return "degenerate";
    return eta * eta > kap * kap && the * the > nu * nu ? "swapped" : "other";
  }

  // Kind and largest eigenvalue; `extra`: how often the two directions outside count, d - 4
  function kindOf(first, k, v, extra) {
    const values = eigen(hessian(first, k, v)).values, largest = Math.max(...values.map(Math.abs));
    const signs = values.map((x) => (Math.abs(x) <= ZERO * largest ? 0 : Math.sign(x)));
    const o = overlapsOf(k, v), R = first(o);
    const block = [[-(R[0] * o[0] + R[1] * o[1] + R[4] * o[4]), R[4]], [R[4], -(R[2] * o[2] + R[3] * o[3] + R[4] * o[4])]];
    const outside = eigen(block).values.filter((x) => Math.abs(x) <= ZERO * largest).length;
    const top = Math.max(...values);
    const zeros = signs.filter((x) => x === 0).length + outside * (extra - 1);
    const all = 2 * (M - 1) + 2 * (extra - 1);
    if (signs.every((x) => x >= 0) && zeros > FLAT * all) return { kind: "flat", top: top };
    return { kind: signs.every((x) => x >= 0) ? "minimum" : signs.every((x) => x <= 0) ? "maximum" : "saddle", top: top };
  }

  // |theta| at erf's role-swapped point
  function erfTheta(lam, law) {
    const g2 = law.gamma * law.gamma, S = Math.sqrt(1 + 2 * lam * lam * g2), q = Math.sqrt(1 + 4 * lam * lam * g2);
    const pull = ((lam * g2) / S) * (2 / Math.sqrt(Math.PI));
    const against = law.signal * window.attnscopeRisk.erfVariance(0, q, lam * lam * g2);
    return against > 0 ? Math.min(1, pull / against) : 1;
  }

  /* The points of a predictor with a closed form, best risk first: {name, kind, overlaps, excess, top}. d >= 5, so that
     there is a dimension outside. */
  function stationary(predictor, lam, law, dim) {
    const first = window.attnscopeRisk.gradient[predictor](lam, law), excess = window.attnscopeRisk.excess[predictor];
    const starts = { oracle: [1, 0, 0, 1, 0] }, points = [];
    first.difference = H / (1 + (lam * law.signal) / Math.sqrt(1 + 2 * Math.pow(lam * law.gamma, 2)));
    if (lam > 0 && law.signal > 0) starts.swapped = [0, 1, erfTheta(lam, law), 0, 0];
    starts.degenerate = [0, 0, 0, 0, 0];
    const slope = (k, v) => Math.sqrt(dot(...[tangentGradient(first, k, v), tangentGradient(first, k, v)]));
    const critical = (k, v) => slope(k, v) < 1e-9 * (1 + law.signal * law.signal);
    Object.keys(starts).forEach((wanted) => {
      let [k, v] = vectorsWith(starts[wanted]), name = wanted;
      if (predictor !== "erf") {
        if (!critical(k, v)) [k, v] = newton(first, k, v);
        name = nameOf(overlapsOf(k, v));
      }
      const o = overlapsOf(k, v).map((x) => Math.min(1, Math.max(-1, x)));
      if (!critical(k, v) || points.some((p) => p.overlaps.every((x, i) => Math.abs(x - o[i]) < NEAR))) return;
      points.push(Object.assign({ name: name, overlaps: o, excess: excess(o, lam, law) }, kindOf(first, k, v, Math.max(1, dim - 4))));
    });
    return points.sort((a, b) => a.excess - b.excess);
  }

  // As in the library: 1, full alignment, where there is no such point
  function swappedTheta(predictor, lam, law, dim) {
    if (lam === 0 || law.signal === 0) return 1;
    if (predictor === "erf") return erfTheta(lam, law);
    const found = stationary(predictor, lam, law, dim).find((p) => p.name === "swapped");
    return found && Math.abs(found.overlaps[1]) >= 0.9 ? Math.abs(found.overlaps[2]) : 1;
  }

  // 2 over the largest eigenvalue at the minima (theory/optima/stable_step.py)
  function stableStep(predictor, lam, law, dim) {
    const points = stationary(predictor, lam, law, dim), minima = points.filter((p) => p.kind === "minimum");
    const mu = Math.max(0, ...(minima.length ? minima : points).map((p) => p.top));
    return mu > 0 ? 2 / mu : Infinity;
  }

  window.attnscopePoints = { stationary: stationary, swappedTheta: swappedTheta, stableStep: stableStep };
})();
