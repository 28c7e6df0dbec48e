/* The client side of the explorer: drawing, playing, copying, the address. Nothing here asks another machine for anything. */
(function () {
  const none = () => window.dash_clientside.no_update;
  const dark = () => window.matchMedia("(prefers-color-scheme: dark)").matches;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const narrow = () => window.innerWidth < 700;

  // Dash restores the cursor of every input it sets, also of sliders, which have none and complain
  const select = HTMLInputElement.prototype.setSelectionRange;
  HTMLInputElement.prototype.setSelectionRange = function (...range) {
    if (this.type !== "range") select.apply(this, range);
  };

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

  // The palette's blue is too dark for a dark page
  const lighter = { "#0072B2": "#3d9ce6", "rgba(0,114,178,0.2)": "rgba(61,156,230,0.25)" };
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

  function toClipboard(text, done, before) {
    const fallback = () => {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.appendChild(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    };
    if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(text).catch(fallback);
    else fallback();
    const name = before === "Copy link" ? "copy-link" : "copy";
    setTimeout(() => window.dash_clientside.set_props(name, { children: before }), 1500);
    return done;
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

  // Training that goes on: after each piece the page asks for the next, unless somebody pressed Stop
  let stopped = false;
  const next = () => setTimeout(() => window.dash_clientside.set_props("tick", { data: Date.now() }), 0);
  const largest = 16000000; // bytes, as in uploads.py

  const functions = {
    live: (lived, clicks) => {
      const by = window.dash_clientside.callback_context.triggered.map((x) => x.prop_id).join();
      if (!lived) return [none(), none()];
      if (lived.fresh && by.includes("lived")) stopped = false;
      if (by.includes("stop")) {
        stopped = !stopped;
        if (!stopped) next();
      } else if (!stopped && lived.done < lived.total) next();
      return [lived.done >= lived.total, stopped ? "Go on" : "Stop"];
    },
    named: () => {
      const input = document.querySelector("#upload input"); // its code is loaded when it is first needed
      if (input) input.setAttribute("aria-label", "File of bags");
      else if (window.location.pathname === "/bags") setTimeout(functions.named, 100);
      return "An .npz or .csv file";
    },
    send: (contents, name) => {
      if (!contents) return [none(), none()];
      if (contents.length > (largest * 4) / 3 + 200) return [none(), "the file must have at most " + largest / 1e6 + " MB, got a larger one; try attnscope fit."];
      return [{ name: name, contents: contents }, ""];
    },
    theme: (path) => {
      const here = path && path !== "/" ? path : "/landscape";
      document.querySelectorAll("nav a").forEach((link) => {
        if (link.id === "nav-" + here.slice(1)) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      });
      return dark() ? "dark" : "light";
    },
    draw: (figure, theme, frame) => {
      if (!figure) return none();
      const drawn = themed(cut(figure, frame));
      const place = document.getElementById("graph"); // a window that changes size makes Plotly fill its place: let that be as high
      if (place) place.style.height = drawn.layout.height + 18 + "px";
      return drawn;
    },
    frameText: (frame, figure) => "Step " + (figure && figure.layout.meta.steps ? figure.layout.meta.steps[frame] ?? "" : ""),
    sync: (position, text, scale) => {
      const by = window.dash_clientside.callback_context.triggered.map((x) => x.prop_id).join();
      if (by.includes('"slider"')) {
        const value = valueAt(Number(position), scale);
        return [none(), value === String(text) ? none() : value];
      }
      const value = Number(text);
      if (!by.includes('"knob"') || text === "" || !(value >= scale.low && value <= scale.high)) return [none(), none()];
      const place = positionOf(value, scale);
      return [place === Number(position) ? none() : place, none()];
    },
    address: (query) => {
      window.history.replaceState(window.history.state, "", window.location.pathname + (query ? "?" + query : ""));
      return query;
    },
    play: (clicks, ticks, stopped, frame, last) => {
      const by = window.dash_clientside.callback_context.triggered.map((x) => x.prop_id).join();
      if (by.includes("play")) {
        if (!clicks) return [none(), none(), none()];
        return stopped ? [false, "Pause", Number(frame) >= last ? 0 : Number(frame)] : [true, "Play", none()];
      }
      if (stopped) return [none(), none(), none()];
      return Number(frame) >= last ? [true, "Play", none()] : [none(), none(), Number(frame) + 1];
    },
    save: (png, svg, view) => {
      const by = window.dash_clientside.callback_context.triggered.map((x) => x.prop_id).join();
      const graph = document.querySelector("#graph .js-plotly-plot");
      const format = by.includes("png") ? "png" : "svg";
      if (graph && (png || svg)) {
        const size = { width: graph.clientWidth, height: graph.clientHeight, scale: format === "png" ? 2 : 1 };
        window.Plotly.downloadImage(graph, Object.assign(size, { format: format, filename: "attnscope-" + view }));
      }
      return none();
    },
    copy: (clicks, code) => (clicks ? toClipboard(code, "Copied", "Copy as Python") : none()),
    copyLink: (clicks) => (clicks ? toClipboard(window.location.href, "Copied", "Copy link") : none()),
    redraw: (clicks, seed) => (clicks ? String((Number(seed) || 0) + 1) : none()),
  };
  window.dash_clientside = Object.assign({}, window.dash_clientside, { explorer: functions });

  const again = () => window.dash_clientside.set_props && window.dash_clientside.set_props("theme", { data: (dark() ? "dark" : "light") + Date.now() });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let wasNarrow = narrow();
  window.addEventListener("resize", () => {
    if (narrow() !== wasNarrow) again();
    wasNarrow = narrow();
  });
})();
