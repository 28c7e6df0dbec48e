/* Special functions and a generator for the pages that compute by themselves: window.attnscopeNumbers.

   erf(x)  = 2/sqrt(pi) e^(-x^2) sum_n 2^n x^(2n+1)/(2n+1)!!   for |x| < 2: positive terms, nothing cancels
   erfc(x) = e^(-x^2)/sqrt(pi) / (x + (1/2)/(x + 1/(x + (3/2)/(x + ...))))   for x >= 2, from the far end

   Both to a few roundings; erfc below 2 is 1 - erf, whose relative error is then at most 3e-14.
   A classic script: no module, nothing fetched, so that it also runs from a file. */
(function () {
  "use strict";
  const SPLIT = 2; // where the series hands over to the fraction
  const FRACTION = 60; // terms of it: at x = 2 what is left out is below 1e-17
  const ROOT_PI = Math.sqrt(Math.PI);

  function series(x) {
    let term = x, sum = x;
    for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return (2 / ROOT_PI) * Math.exp(-x * x) * sum;
  }

  // erfc(x) e^(x^2), x >= SPLIT
  function scaledTail(x) {
    let below = x;
    for (let n = FRACTION; n >= 1; n--) below = x + n / 2 / below;
    return 1 / (ROOT_PI * below);
  }

  function erf(x) {
    if (Math.abs(x) < SPLIT) return series(x);
    const far = 1 - scaledTail(Math.abs(x)) * Math.exp(-x * x);
    return x > 0 ? far : -far;
  }

  function erfc(x) {
    if (x >= SPLIT) return scaledTail(x) * Math.exp(-x * x);
    return 1 - erf(x);
  }

  // Random numbers of a seed: the multiplicative generator modulo 2^31 - 1, whose products are exact in
  // doubles. For pictures of a task; no number that carries an error comes from here.
  function generator(seed) {
    const modulus = 2147483647, factor = 48271;
    let state = (Math.floor(Math.abs(seed || 0)) % (modulus - 1)) + 1;
    const uniform = () => {
      state = (state * factor) % modulus;
      return state / modulus;
    };
    for (let i = 0; i < 20; i++) uniform(); // neighbouring seeds begin alike
    let spare = null;
    const normal = () => {
      if (spare !== null) {
        const kept = spare;
        spare = null;
        return kept;
      }
      const size = Math.sqrt(-2 * Math.log(uniform())), angle = 2 * Math.PI * uniform();
      spare = size * Math.sin(angle);
      return size * Math.cos(angle);
    };
    // chi-square with m >= 0 degrees of freedom: a sum of squares where they are few, else by rejection
    // from a cube of a normal variable (exact)
    const chi2 = (m) => {
      if (m < 8) {
        let sum = 0;
        for (let i = 0; i < m; i++) sum += Math.pow(normal(), 2);
        return sum;
      }
      const d = m / 2 - 1 / 3, c = 1 / Math.sqrt(9 * d);
      for (;;) {
        const x = normal(), v = Math.pow(1 + c * x, 3);
        if (v > 0 && Math.log(uniform()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return 2 * d * v;
      }
    };
    return { uniform: uniform, normal: normal, chi2: chi2 };
  }

  window.attnscopeNumbers = { erf: erf, erfc: erfc, generator: generator };
})();
