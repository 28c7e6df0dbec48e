/* How figures look on both pages, the live one and the plain files: colours of the page, one column of panels on a phone,
   frames of a run, and where on its slider a value sits: window.attnscopeDrawing. Loaded before explorer.js: Dash takes scripts by their names. */
(function () {
  const dark = () => window.matchMedia("(prefers-color-scheme: dark)").matches;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const narrow = () => window.innerWidth < 700;

  function axes(layout) {
    return Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
  }

  // Rows of Plotly's legend: one if all entries fit, else columns as wide as the widest entry (45 px: its symbol and gaps)
  function legendRows(names, width) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = "12px system-ui, sans-serif";
    const widths = names.map((name) => pen.measureText(name).width + 45);
    if (widths.reduce((a, b) => a + b, 0) <= width) return Math.min(1, names.length);
    return Math.ceil(names.length / Math.max(1, Math.floor(width / Math.max(...widths))));
  }

  // The palette's blue is too dark for a dark page; its sky blue stays apart from that
  const lighter = { "#0072B2": "#3d9ce6", "rgba(0,114,178,0.2)": "rgba(61,156,230,0.25)", "#3A97D3": "#8fd0fa", "rgba(58,151,211,0.2)": "rgba(143,208,250,0.25)" };
  function lit(trace) {
    const change = {}; // only what is there: Plotly takes an undefined line for a wrong one
    ["line", "marker"].forEach((part) => {
      const color = trace[part] && lighter[trace[part].color];
      if (color) change[part] = Object.assign({}, trace[part], { color: color });
    });
    if (lighter[trace.fillcolor]) change.fillcolor = lighter[trace.fillcolor];
    return Object.assign({}, trace, change);
  }

  // Colours of the page, and one column of panels where two do not fit
  function themed(figure) {
    const ink = css("--ink"), line = css("--line"), paper = css("--card");
    const layout = Object.assign({}, figure.layout);
    const panels = layout.meta.panels, columns = narrow() ? 1 : layout.meta.columns;
    const rows = Math.ceil(panels / columns);
    axes(layout).forEach((name) => {
      layout[name] = Object.assign({}, layout[name], { gridcolor: line, linecolor: line, tickcolor: line, automargin: name[0] === "y", nticks: rows > 2 ? 5 : 0 });
      const i = (parseInt(name.slice(5)) || 1) - 1;
      if (narrow() && panels > 1 && name[0] === "x") layout[name].domain = [0, 1];
      if (narrow() && panels > 1 && name[0] === "y") {
        const gap = 0.3 / rows, height = (1 - gap * (rows - 1)) / rows;
        layout[name].domain = [Math.max(0, 1 - i * (height + gap) - height), 1 - i * (height + gap)];
      }
    });
    const traces = dark() ? figure.data.map(lit) : figure.data;
    if (narrow()) layout.annotations = (layout.annotations || []).map((title) => Object.assign({}, title, { font: { size: 12 } }));
    const data = !narrow() ? traces : traces.map((trace) => trace.type !== "heatmap" ? trace : Object.assign({}, trace, {
      colorbar: { orientation: "h", thickness: 10, outlinewidth: 0, x: 0.5, y: 1.02, yanchor: "bottom", len: 1, title: { text: trace.colorbar.title.text, side: "right" } },
    }));
    const place = document.querySelector(".graph");
    const across = place ? place.clientWidth - 18 : 742; // its padding and border
    const left = layout.meta.square && narrow() ? 46 : 64, right = narrow() ? 8 : 16, bar = layout.meta.square && !narrow() ? 80 : 0;
    const names = figure.data.filter((trace) => trace.showlegend).map((trace) => trace.name);
    const legend = 10 + 19 * legendRows(names, across - left - right - bar);
    const width = Math.min(760, across + 18);
    const top = narrow() && layout.meta.square ? 24 : 0;
    const body = layout.meta.square ? width - (narrow() ? 72 : 110) : panels === 1 ? (narrow() ? 340 : 440) : rows * 250;
    return { data: data, layout: Object.assign(layout, {
      uirevision: "keep", paper_bgcolor: paper, plot_bgcolor: paper, hovermode: "closest", autosize: true,
      height: body + legend + 86 + top, dragmode: narrow() ? false : "zoom",
      font: { color: ink, size: 13, family: "system-ui, sans-serif" },
      margin: { l: left, r: right, t: 30 + top, b: 56 + legend },
      legend: { orientation: "h", xref: "container", yref: "container", y: 0, yanchor: "bottom", x: 0, font: { size: 12 }, traceorder: "normal" },
    }) };
  }

  // The first frame + 1 points of every trace: each has one point per logged step, or is made of such pieces with a gap after each, or is a band that goes there and back
  function cut(figure, frame) {
    const steps = figure.layout.meta.steps;
    if (!steps || frame === null || frame >= steps.length - 1) return figure;
    const kept = (meta) => {
      if (meta && meta.each) return (_, i) => i % (meta.each + 1) <= frame || i % (meta.each + 1) === meta.each;
      if (meta && meta.band) return (_, i) => i <= frame || i >= 2 * meta.band - 1 - frame;
      return (_, i) => i <= frame;
    };
    const data = figure.data.map((trace) => {
      const shown = kept(trace.meta);
      return Object.assign({}, trace, { x: trace.x.filter(shown), y: trace.y.filter(shown) });
    });
    return { data: data, layout: figure.layout };
  }

  function valueAt(position, scale) {
    const share = position / scale.ticks;
    let value = scale.log ? scale.low * Math.pow(scale.high / scale.low, share) : scale.low + (scale.high - scale.low) * share;
    value = scale.log ? Number(value.toPrecision(3)) : Number(value.toPrecision(12));
    if (!scale.log && !scale.whole) value = Number(value.toFixed(scale.high < 0.1 ? 6 : 4));
    if (scale.whole) value = Math.round(value);
    return String(Math.min(scale.high, Math.max(scale.low, value)));
  }

  function positionOf(value, scale) {
    const at = scale.log ? Math.log : (x) => x;
    return Math.round((scale.ticks * (at(value) - at(scale.low))) / (at(scale.high) - at(scale.low)));
  }

  window.attnscopeDrawing = { dark: dark, narrow: narrow, themed: themed, cut: cut, valueAt: valueAt, positionOf: positionOf };
})();
