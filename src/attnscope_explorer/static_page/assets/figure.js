/* Panels as what Plotly draws, in the form of figures/render_plotly.py, so that drawing.js dresses both:
   window.attnscopePanels. A panel is {title, x, y, logX, logY, xRange, yRange, traces}. */
(function () {
  "use strict";
  const GAP = 0.11, ROW_GAP = 0.34; // between columns and rows, as there

  function place(i, panels, columns) {
    const rows = Math.ceil(panels / columns), row = Math.floor(i / columns), column = i % columns;
    const gap = ROW_GAP / rows, width = (1 - GAP * (columns - 1)) / columns, height = (1 - gap * (rows - 1)) / rows;
    const left = column * (width + GAP), top = 1 - row * (height + gap);
    return [[left, Math.min(1, left + width)], [Math.max(0, top - height), top]];
  }

  function axis(label, log, range, domain, anchor) {
    const out = { title: { text: label, standoff: 6 }, zeroline: false, type: log ? "log" : "linear", domain: domain, anchor: anchor };
    if (log) out.exponentformat = "power";
    if (range) out.range = log ? range.map(Math.log10) : range;
    return out;
  }

  function figure(panels, columns) {
    const layout = { annotations: [], meta: { panels: panels.length, columns: columns } }, data = [], seen = new Set();
    panels.forEach((panel, i) => {
      const suffix = i ? String(i + 1) : "", [across, up] = place(i, panels.length, columns);
      layout["xaxis" + suffix] = axis(panel.x, panel.logX, panel.xRange, across, "y" + suffix);
      layout["yaxis" + suffix] = axis(panel.y, panel.logY, panel.yRange, up, "x" + suffix);
      if (panels.length > 1) layout.annotations.push({ text: `<b>${panel.title}</b>`, showarrow: false, xanchor: "left", yanchor: "bottom",
        xref: `x${suffix} domain`, yref: `y${suffix} domain`, x: 0, y: 1, yshift: 4 });
      panel.traces.forEach((trace) => {
        const name = trace.name || "", listed = name !== "" && !seen.has(name) && !trace.z && !trace.quiet;
        if (listed) seen.add(name);
        const full = Object.assign({ type: "scatter", legendgroup: name, showlegend: listed, xaxis: "x" + suffix, yaxis: "y" + suffix }, trace);
        delete full.quiet;
        data.push(full);
      });
    });
    return { data: data, layout: layout };
  }

  const line = (x, y, name, color, more) => Object.assign({ mode: "lines", x: x, y: y, name: name, line: { color: color, width: 2.2, dash: "solid" } }, more);
  const dashed = (x, y, name, color) => line(x, y, name, color, { line: { color: color, width: 2.2, dash: "dash" } });
  const thin = (x, y, name, color, each) => line(x, y, name, color, { line: { color: color, width: 1.2, dash: "solid" }, meta: { each: each } });
  const points = (x, y, name, color, more) => Object.assign({ mode: "markers", x: x, y: y, name: name, marker: { color: color, size: 9 } }, more);

  function faint(color) {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
    return `rgba(${r},${g},${b},0.2)`;
  }
  const band = (x, low, high, color) => ({ mode: "lines", line: { width: 0 }, hoverinfo: "skip", name: "", fill: "toself", fillcolor: faint(color),
    x: [...x, ...x.slice().reverse()], y: [...low, ...high.slice().reverse()], meta: { band: x.length } });

  // Five significant digits or fewer, also of what underflows
  const number = (x, digits = 5) => (x === 0 ? "0" : Math.abs(x) >= 1e-4 && Math.abs(x) < 1e5 ? String(Number(x.toPrecision(digits))) : x.toExponential(digits - 1).replace(/\.?0+e/, "e"));
  function power(log, digits) {
    const exponent = log / Math.LN10;
    if (log === -Infinity) return "0";
    return exponent > -300 ? number(Math.exp(log), digits) : `10^${exponent.toFixed(1)}`;
  }
  const geomspace = (low, high, n) => Array.from({ length: n }, (_, i) => low * Math.pow(high / low, i / (n - 1)));
  const linspace = (low, high, n) => Array.from({ length: n }, (_, i) => low + ((high - low) * i) / (n - 1));

  window.attnscopePanels = { figure: figure, line: line, dashed: dashed, thin: thin, points: points, band: band, number: number, power: power, geomspace: geomspace, linspace: linspace };
})();
