/* The numbers of the task on stage: one sequence, what a head with given overlaps attends to and predicts.

   notation: k*, v* = the task's key and value (orthogonal), k, v = the head's, s = signal, gam = gamma,
   lam = inverse temperature, u_l = X_l.k.

   X_J = s k* + gam G, the other tokens G, Y = X_J.v* + noise. In an orthonormal frame (k*, v*, r1, r2)

       k = kap k* + eta v* + a r1                  a^2 = 1 - kap^2 - eta^2
       v = the k* + nu v* + b r1 + c r2            b = (rho - kap the - eta nu)/a,  c^2 = 1 - the^2 - nu^2 - b^2

   so four numbers a token and the squared length of the rest, chi-square with d - 4 degrees of freedom, have
   exactly the law of the whole sequence, whatever d. Weights as in predictors/attention.py: erf(lam u),
   lam u, e^(lam u) over their sum (softmax-one: 1 + sum), softplus, and the optimal sigma of
   theory/optima/optimal_sigma.py. The draw depends on the seed and the task alone, never on the head: when the
   overlaps move, the same sequence is seen by another head.

   A classic script without dependencies but numbers.js; stage_draw.js draws. */
(function () {
  "use strict";
  const WEIGHTS = "attention weight"; // as in attnscope_explorer/stage_data.py
  const POSSIBLE = 1e-9; // overlaps miss those of unit vectors by so much through rounding alone
  const stage = (window.attnscopeStage = window.attnscopeStage || {});
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);

  /* {k, v}: the head's directions in the frame, or null where no unit vectors have these overlaps: where the Gram
     matrix [[p, x], [x, q]] of what k and v have outside span{k*, v*} has an eigenvalue below 0 */
  function directions(o) {
    const p = 1 - o.kappa * o.kappa - o.eta * o.eta, q = 1 - o.theta * o.theta - o.nu * o.nu;
    const x = o.rho - o.kappa * o.theta - o.eta * o.nu;
    if (!((p + q) / 2 - Math.hypot((p - q) / 2, x) >= -POSSIBLE)) return null;
    const a = Math.sqrt(Math.max(p, 0)), most = Math.sqrt(Math.max(q, 0));
    const b = a > 0 ? Math.min(Math.max(x / a, -most), most) : 0;
    return { k: [o.kappa, o.eta, a, 0], v: [o.theta, o.nu, b, Math.sqrt(Math.max(q - b * b, 0))] };
  }

  function normalised(logs, sink) {
    const top = Math.max(...logs, sink ? 0 : -Infinity);
    const parts = logs.map((x) => Math.exp(x - top));
    const total = parts.reduce((sum, x) => sum + x, 0) + (sink ? Math.exp(-top) : 0);
    return parts.map((x) => x / total);
  }

  // e^x to rounding below -37, as in the library
  const logSoftplus = (x) => (x < -37 ? x : Math.log(Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))));

  const KINDS = {
    erf: (x) => x.map(window.attnscopeNumbers.erf),
    linear: (x) => x,
    softmax: (x) => normalised(x, false),
    "softmax-one": (x) => normalised(x, true),
    softplus: (x) => normalised(x.map(logSoftplus), false),
  };

  // sigma*(u) = logistic(log gam - log(L-1) - (u-s)^2/(2 gam^2) + u^2/2); it has no inverse temperature
  function sigma(u, law) {
    const g2 = law.gamma * law.gamma;
    const constant = Math.log(law.gamma) - Math.log(law.length - 1) - (law.signal * law.signal) / (2 * g2);
    return u.map((x) => {
      const logit = ((1 - 1 / g2) / 2) * x * x + (law.signal / g2) * x + constant;
      return logit >= 0 ? 1 / (1 + Math.exp(-logit)) : Math.exp(logit) / (1 + Math.exp(logit));
    });
  }

  // The weights of tokens with scores u_l = X_l.k
  stage.weights = function (predictor, inverse_temperature, scores, law) {
    if (predictor === "sigma") return sigma(scores, law);
    return KINDS[predictor](scores.map((u) => inverse_temperature * u));
  };
  const predictors = [...Object.keys(KINDS), "sigma"];
  // Whether the setting can be shown: its weights are known here, or given
  stage.knows = (setting) => Boolean(setting.given) || predictors.includes(setting.predictor);

  const signalOf = (setting) => setting.signal ?? Math.sqrt(setting.dim / 2);

  // The sequence of a seed: tokens in the frame, the squared length of the rest of each, location, label
  function drawn(setting, law) {
    const random = window.attnscopeNumbers.generator(setting.seed);
    const location = Math.min(Math.floor(random.uniform() * law.length), law.length - 1);
    const noise = (setting.noise || 0) * random.normal();
    const tokens = [], rest = [];
    for (let l = 0; l < law.length; l++) {
      const scale = l === location ? law.gamma : 1;
      const token = [0, 1, 2, 3].map(() => scale * random.normal());
      if (l === location) token[0] += law.signal;
      tokens.push(token);
      rest.push(scale * scale * random.chi2(Math.max(0, setting.dim - 4)));
    }
    return { tokens: tokens, rest: rest, location: location, truth: tokens[location][1] + noise };
  }

  // P(J = l | X), from l(x) = -d log gam - s^2/(2 gam^2) + s x.k*/gam^2 - (1/gam^2 - 1)|x|^2/2
  function posterior(made, law) {
    const g2 = law.gamma * law.gamma;
    const logs = made.tokens.map((x, l) => (law.signal * x[0]) / g2 - ((1 / g2 - 1) * (dot(x, x) + made.rest[l])) / 2);
    return normalised(logs, false);
  }

  /* A sequence with numbers of its own instead of a task's (attnscope_explorer/stage_data.py, `given`): {rows: [[title, numbers]],
     location (null: no token decides), prediction, truth (null: not to be drawn), sentence} */
  function given(of) {
    const weights = of.rows.find(([title]) => title === WEIGHTS)[1], size = weights.map(Math.abs);
    const rows = of.rows.map(([title, numbers]) => [title, [["head", numbers]]]);
    return Object.assign({}, of, { length: weights.length, weights: weights, rows: rows, possible: true, top: size.indexOf(Math.max(...size)), location: of.location ?? -1 });
  }

  /* All numbers of a setting {dim, length, gamma, signal (null: sqrt(dim/2)), noise, predictor, inverse_temperature,
     overlaps: {kappa, eta, theta, nu, rho}, seed} and, where the sequence is given instead of drawn, `drawn`: {tokens
     (L, 4) in the frame, rest (L) squared lengths outside, location, truth}. `possible` is false, and the head's numbers are missing, where
     no unit vectors have these overlaps. */
  stage.sequence = function (setting) {
    if (setting.given) return given(setting.given);
    const law = { gamma: setting.gamma, signal: signalOf(setting), length: setting.length };
    const made = setting.drawn || drawn(setting, law);
    const out = { length: law.length, signal: law.signal, location: made.location, truth: made.truth, frame: made.tokens };
    out.teacherKey = made.tokens.map((x) => x[0]);
    out.teacherValue = made.tokens.map((x) => x[1]);
    out.posterior = posterior(made, law);
    out.bayes = dot(out.posterior, out.teacherValue);
    const head = directions(setting.overlaps);
    out.possible = head !== null;
    if (!head) return out;
    out.head = head;
    out.scores = made.tokens.map((x) => dot(x, head.k));
    out.values = made.tokens.map((x) => dot(x, head.v));
    out.weights = stage.weights(setting.predictor, setting.inverse_temperature, out.scores, law);
    out.prediction = dot(out.weights, out.values);
    const size = out.weights.map(Math.abs);
    out.top = size.indexOf(Math.max(...size));
    return out;
  };

  const number = (x) => (Math.abs(x) < 0.005 ? "0" : x.toFixed(2));
  const percent = (x) => (x > 0 && x < 0.001 ? "less than 0.1" : x < 0.1 ? (100 * x).toFixed(1) : Math.round(100 * x)) + " %";

  // What the head does with this sequence, in one sentence
  stage.sentence = function (setting, found) {
    if (setting.given) return setting.given.sentence;
    const decides = "token " + (found.location + 1) + ", the one that decides";
    if (!found.possible) return "No unit vectors have these overlaps: there is no such head.";
    const end = "it predicts " + number(found.prediction) + ", the truth is " + number(found.truth) + ".";
    const own = found.weights[found.location], most = found.weights[found.top];
    const elsewhere = found.top !== found.location;
    if (["softmax", "softmax-one", "softplus"].includes(setting.predictor)) {
      const other = elsewhere ? ", more (" + percent(most) + ") on token " + (found.top + 1) : "";
      return "The head puts " + percent(own) + " of its weight on " + decides + other + "; " + end;
    }
    const rest = found.weights.filter((_, l) => l !== found.location).map(Math.abs);
    const others = elsewhere
      ? "and token " + (found.top + 1) + " " + number(most) + ", more in size"
      : "the others at most " + number(Math.max(0, ...rest)) + " in size";
    return "The head gives " + decides + ", the weight " + number(own) + ", " + others + "; " + end;
  };
})();
