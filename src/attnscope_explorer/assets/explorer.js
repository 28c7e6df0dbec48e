/* The client side of the explorer: drawing, playing, copying, the address. Nothing here asks another machine for anything. */
(function () {
  const none = () => window.dash_clientside.no_update;
  const { dark, narrow, valueAt, positionOf } = window.attnscopeDrawing;

  // Dash restores the cursor of every input it sets, also of sliders, which have none and complain
  const select = HTMLInputElement.prototype.setSelectionRange;
  HTMLInputElement.prototype.setSelectionRange = function (...range) {
    if (this.type !== "range") select.apply(this, range);
  };

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

  // Training that goes on: after each piece the page asks for the next, unless somebody pressed Stop
  let stopped = false;
  const next = () => setTimeout(() => window.dash_clientside.set_props("tick", { data: Date.now() }), 0);
  const largest = 16000000; // bytes, as in uploads.py

  let drawing = false; // a training on its way has been drawn

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
        if (link.id === "nav-" + here.split("/")[1]) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      });
      return dark() ? "dark" : "light";
    },
    draw: (figure, theme, frame) => {
      if (!figure) return none();
      // who wants little motion sees the first piece of a training and its end
      const going = figure.layout.meta.going && window.matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (going && drawing) return none();
      drawing = going;
      const by = window.dash_clientside.callback_context.triggered.map((x) => x.prop_id).join();
      return by.includes("theme") || window.attnscopeQuick.due(figure) ? window.attnscopeQuick.dressed(figure, frame) : none();
    },
    frameText: (frame, figure) => "Step " + (figure && figure.layout.meta.steps ? figure.layout.meta.steps[frame] ?? "" : ""),
    sync: (position, text) => {
      const { triggered, inputs_list } = window.dash_clientside.callback_context;
      const by = triggered.map((x) => x.prop_id).join(), scale = window.attnscopeQuick.scaleOf(inputs_list[0].id.name);
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
      const search = window.attnscopeTours.search(query);
      window.history.replaceState(window.history.state, "", window.location.pathname + (search ? "?" + search : ""));
      return query;
    },
    toured: (texts) => window.attnscopeTours.fill(texts),
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
  window.dash_clientside = Object.assign({}, window.dash_clientside, { explorer: Object.assign(functions, (window.dash_clientside || {}).explorer) });

  const again = () => window.dash_clientside.set_props && window.dash_clientside.set_props("theme", { data: (dark() ? "dark" : "light") + Date.now() });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.addEventListener("attnscope-resized", again);
  let wasNarrow = narrow();
  window.addEventListener("resize", () => {
    if (narrow() !== wasNarrow) again();
    wasNarrow = narrow();
  });
})();
