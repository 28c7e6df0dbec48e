/* The page: reads the address behind the hash, shows the view with its knobs, figure, stage, table and note. Nothing here
   asks another machine for anything; what the page has was written beside it. */
(function () {
  "use strict";
  const make = (...all) => window.attnscopeControls.make(...all), S = () => window.attnscopeState;
  const EXACT = ["erf", "linear"];
  const GRAPH = { displaylogo: false, showSendToCloud: false, showLink: false, plotlyServerURL: "", responsive: true, displayModeBar: false, typesetMath: false };
  const byId = (name) => document.getElementById(name);
  let state = null; // {view, values, tour, step}
  let stop = () => {}; // ends work of an older state
  let last = null; // what is shown
  let held = null; // the head on stage
  let frame = null, playing = null;

  // {view, query, tour, step} of an address, or a sentence
  function read(hash) {
    const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s), parts = path.split("/");
    if (parts[0] === "tours") return { list: true };
    if (parts[0] === "tour") {
      const tour = window.attnscopeTours.find(parts[1]), k = Number(parts[2] || 1);
      if (!tour) return { wrong: `the tour of this page must be one of ${window.attnscopeTourList.map((t) => t.name).join(", ")}, got '${(parts[1] || "").slice(0, 40)}'.` };
      if (!(Number.isInteger(k) && k >= 1 && k <= tour.steps.length)) return { wrong: `the step of the tour ${tour.name} must be a whole number from 1 to ${tour.steps.length}, got '${(parts[2] || "").slice(0, 40)}'; try #tour/${tour.name}/1.` };
      return { view: tour.steps[k - 1].view, query: query || tour.steps[k - 1].query, tour: tour, step: k };
    }
    const view = parts[0] || "landscape";
    if (!(view in window.attnscopeKnobs.views)) return { wrong: `the page must be one of ${Object.keys(window.attnscopeKnobs.views).map((name) => "#/" + name).join(", ")}, got '${view.slice(0, 40)}'.` };
    return { view: view, query: query };
  }

  function nav(view) {
    const links = Object.keys(window.attnscopeKnobs.views).map((name) => {
      const link = make("a", "", window.attnscopeKnobs.views[name].title);
      const carried = state && state.view !== name ? S().carried(state.view, state.values, name) : state && state.view === name ? S().query(name, state.values) : "";
      link.href = S().address(name, carried);
      if (name === view) link.setAttribute("aria-current", "page");
      return link;
    });
    const tours = make("a", "", "Tours");
    tours.href = "#tours";
    if (view === "tours") tours.setAttribute("aria-current", "page");
    byId("nav").replaceChildren(...links, tours);
  }

  function skeleton(found, sentences) {
    const text = window.attnscopeKnobs.views[found.view], main = byId("page");
    const output = make("section", "output staged of-" + found.view);
    output.setAttribute("aria-label", "Result");
    output.innerHTML = `<p id="address-message" role="alert" class="message"></p><p id="message" role="alert" class="message"></p><div id="advice" role="status" class="advice"></div>
      <div id="graph" class="graph"><div id="plot" class="plot"></div></div><aside id="stage" aria-label="The task on stage"></aside>
      <div id="player" class="player" hidden><button type="button" id="play">Play</button><label><span id="frame-text">Step</span><input type="range" id="frame" min="0" value="0" step="1" class="range"></label></div>
      <p id="sentence" class="sentence"></p><div id="images" class="images"></div><p id="note" role="status" class="note"></p>
      <div class="buttons" role="group" aria-label="Download or share"><button type="button" id="png">PNG</button><button type="button" id="svg">SVG</button><button type="button" id="csv">CSV</button><button type="button" id="copy-link">Copy link</button></div>
      <div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table id="table"></table></div><div id="code-title" class="code-title" hidden><h3>As Python</h3></div><pre tabindex="0"><code id="code"></code></pre>`;
    const form = make("form", "controls");
    form.id = "settings";
    form.setAttribute("aria-label", "Settings");
    form.addEventListener("submit", (event) => event.preventDefault());
    const sheet = make("button", "sheet", "Knobs");
    sheet.type = "button";
    sheet.setAttribute("aria-expanded", "false");
    sheet.setAttribute("aria-controls", "settings");
    sheet.addEventListener("click", () => openSheet(sheet.getAttribute("aria-expanded") !== "true"));
    const title = make("div", "title", make("h2", "", text.title), make("p", "", text.subtitle));
    if (found.tour) main.replaceChildren(window.attnscopeTours.panel(found.tour, found.step), form, output, sheet);
    else main.replaceChildren(...(found.view === "landscape" ? [window.attnscopeTours.strip()] : []), title, form, output, sheet);
    byId("address-message").textContent = sentences.join(" ");
    wire();
  }

  function openSheet(yes) {
    document.querySelector(".sheet").setAttribute("aria-expanded", String(yes));
    byId("settings").classList.toggle("open", yes);
  }
  document.addEventListener("keydown", (event) => {
    const sheet = document.querySelector(".sheet[aria-expanded=true]");
    if (event.key === "Escape" && sheet) { openSheet(false); sheet.focus(); }
  });

  // A knob was turned: the same view with another value, and its address
  function turn(name, text) {
    try {
      const value = S().parsed(name, String(text), state.view);
      byId("message").textContent = "";
      if (value === state.values[name]) return;
      state.values[name] = value;
    } catch (sentence) {
      if (typeof sentence !== "string") throw sentence;
      byId("message").textContent = sentence;
      return;
    }
    byId("address-message").textContent = "";
    const query = S().query(state.view, state.values);
    const own = state.tour ? S().query(state.view, S().parse(state.view, state.tour.steps[state.step - 1].query).values) : "";
    const address = state.tour ? `#tour/${state.tour.name}/${state.step}` + (query === own ? "" : "?" + (query || spelled())) : S().address(state.view, query);
    window.history.replaceState(null, "", address);
    nav(state.view);
    compute();
  }
  // All knobs at their defaults differ from the step's own: the address says so by one of them
  const spelled = () => {
    const name = window.attnscopeKnobs.views[state.view].knobs[0], values = S().parse(state.view, "").values;
    return `${name}=${S().plain(values[name])}`;
  };

  function route() {
    stop();
    const found = read(window.location.hash);
    held = null;
    pause();
    document.title = "attnscope explorer";
    if (found.list || found.wrong) {
      state = null;
      window.attnscopeTours.present(false);
      nav(found.list ? "tours" : "");
      byId("page").replaceChildren(...(found.list ? window.attnscopeTours.list() : [Object.assign(make("p", "message", found.wrong), { role: "alert" })]));
      return;
    }
    if (!found.tour) window.attnscopeTours.present(false);
    const { values, sentences } = S().parse(found.view, found.query);
    state = { view: found.view, values: values, tour: found.tour, step: found.step };
    nav(found.view);
    skeleton(found, sentences);
    byId("settings").replaceChildren(...window.attnscopeControls.form(found.view, values, turn));
    if (found.tour) document.title = `${found.tour.steps[found.step - 1].title} · attnscope`;
    compute();
    if (found.tour) window.scrollTo(0, 0);
  }

  // The view of the state: computed here, or one that was computed beforehand
  function compute() {
    stop();
    pause();
    frame = null;
    const { view, values } = state, query = S().query(view, values);
    const here = view === "risk" || view === "posterior" || ((view === "landscape" || view === "training") && EXACT.includes(values.predictor));
    if (here) { stop = window.attnscopeViews[view](Object.assign({}, values), show) || (() => {}); return; }
    let wanted = true;
    stop = () => { wanted = false; };
    window.attnscopeExample.loaded(view, (records) => {
      if (!wanted) return;
      if (records[query]) show(window.attnscopeExample.shown(records[query]));
      else show({ missing: true });
      examples(view, query);
    });
  }

  // Links to what was computed beforehand
  function examples(view, query) {
    const form = byId("settings"), old = form.querySelector(".examples"), list = window.attnscopeExample.listed(view);
    if (old) old.remove();
    const items = list.map(([text, words]) => {
      const link = make("a", "", words);
      // in a tour one stays in it
      link.href = state.tour ? `#tour/${state.tour.name}/${state.step}?${text || spelled()}` : S().address(view, text);
      if (text === query) link.setAttribute("aria-current", "true");
      return make("li", "", link);
    });
    form.prepend(make("fieldset", "group examples", make("legend", "", "Computed beforehand"), make("ul", "", ...items)));
    if (["samples", "convergence", "bags"].includes(view)) form.querySelectorAll(".group:not(.examples)").forEach((group) => { group.hidden = true; });
  }

  function table(header, rows) {
    const cell = (kind, text, scope) => { const node = make(kind, "", text); if (scope) node.scope = scope; return node; };
    const head = make("thead", "", make("tr", "", ...header.map((text) => cell("th", text, "col"))));
    const body = rows.map(([name, ...rest]) => make("tr", "", cell("th", name, "row"), ...rest.map((text) => cell("td", text))));
    byId("table").replaceChildren(head, make("tbody", "", ...body));
  }

  function show(what) {
    if (what.message || what.missing) {
      const text = what.message || `These plain files have this view only for the knobs listed under "Computed beforehand". Any other is computed by attnscope explore, at ${"/" + state.view + (S().query(state.view, state.values) ? "?" + S().query(state.view, state.values) : "")} .`;
      byId("message").textContent = text;
      window.Plotly.purge(byId("plot"));
      byId("graph").hidden = true;
      ["table", "stage", "advice", "images", "sentence"].forEach((name) => byId(name).replaceChildren());
      byId("note").textContent = "";
      byId("code").textContent = "";
      byId("code-title").hidden = byId("player").hidden = true;
      window.attnscopeControls.follow(byId("settings"), state.values, []);
      last = null;
      return () => {};
    }
    if (byId("message").textContent.startsWith("These plain files")) byId("message").textContent = "";
    last = what;
    byId("graph").hidden = false;
    window.attnscopeControls.follow(byId("settings"), state.values, what.hidden);
    byId("note").textContent = what.note;
    byId("code").textContent = what.code || "";
    byId("code-title").hidden = !what.code;
    table(what.header, what.rows);
    advised(what.advice || []);
    words(what);
    player(what);
    stage(); // first: the figure has the width that the stage leaves
    draw();
    return () => {};
  }

  function advised(list) {
    byId("advice").replaceChildren(...list.map((one) => {
      const buttons = one.buttons.map(([text, values]) => {
        const button = make("button", "", text);
        button.type = "button";
        button.addEventListener("click", () => Object.keys(values).forEach((name) => turn(name, values[name])));
        return button;
      });
      return make("p", one.warn ? "advised warn" : "advised", make("span", "", one.sentence), ...buttons);
    }));
  }

  // A sentence or a bag of pictures, shaded by attention; the chosen token is marked up as well
  function words(what) {
    const shade = (node, weight) => { node.style.setProperty("--weight", Math.min(Math.max(weight, 0), 1).toFixed(3)); node.title = `attention ${Number(weight.toPrecision(3))}`; return node; };
    const said = (what.sentence || []).flatMap(([word, weight, chosen], i) => {
      const glue = word.startsWith("##") || ".,!?".includes(word) || !i ? "" : " ";
      return [glue, shade(make(chosen ? "mark" : "span", "", word.replace(/^##/, "")), weight)];
    });
    byId("sentence").replaceChildren(...said);
    byId("images").replaceChildren(...(what.images || []).map(([source, weight, chosen], j) => {
      const text = `token ${j + 1}` + (chosen ? ", chosen" : ""), picture = make("img");
      Object.assign(picture, { src: source, alt: text });
      return make("figure", "", shade(make(chosen ? "mark" : "span", "", picture), weight), make("figcaption", "", text));
    }));
  }

  function draw() {
    if (!last || !last.figure) return;
    const place = byId("plot"), { themed, cut } = window.attnscopeDrawing, drawn = themed(cut(last.figure, frame));
    byId("graph").style.height = drawn.layout.height + 18 + "px"; // with its padding and border
    const first = !place.data;
    window.Plotly.react(place, drawn.data, drawn.layout, GRAPH);
    if (first) ["plotly_hover", "plotly_click"].forEach((name) => place.on(name, (event) => {
      if (!last.figure.layout.meta.stage) return;
      const head = window.attnscopeHeads.headOf(last.figure, event.points[0]);
      if (head) { held = head; stage(); }
    }));
  }

  // Whose head is on stage: under the mouse, by a button, else the figure's first
  function stage() {
    const place = byId("stage"), of = last && last.figure && last.figure.layout.meta.stage;
    place.hidden = !of;
    document.querySelector(".output").classList.toggle("staged", Boolean(of));
    if (!of) return place.replaceChildren();
    if (!place.querySelector(".stage-canvas")) {
      const heads = make("div", "stage-heads");
      heads.setAttribute("role", "group");
      heads.setAttribute("aria-label", "Whose head is on stage");
      place.replaceChildren(make("div", "stage-canvas"), heads);
    }
    const head = held || { overlaps: window.attnscopeHeads.named(of.overlaps), label: of.label };
    window.attnscopeStage.draw(place.querySelector(".stage-canvas"), Object.assign({}, of.setting, head.setting, { overlaps: head.overlaps, label: head.label }));
    const heads = place.querySelector(".stage-heads");
    if (heads.contains(document.activeElement)) return;
    heads.replaceChildren(...window.attnscopeHeads.choices(last.figure).map(([text, choice]) => {
      const button = make("button", "", text);
      button.type = "button";
      button.addEventListener("click", () => { held = choice; stage(); });
      return button;
    }));
  }

  // -- playing through the steps of a run --
  function player(what) {
    byId("player").hidden = !what.frames;
    if (!what.frames) return;
    const slider = byId("frame");
    slider.max = what.frames - 1;
    slider.value = frame ?? what.frames - 1;
    byId("frame-text").textContent = "Step " + what.figure.layout.meta.steps[slider.value];
  }
  function seek(at) {
    frame = at;
    player(last);
    const steps = last.figure.layout.meta.steps, of = last.figure.layout.meta.stage;
    if (of && of.groups) {
      const name = Object.keys(of.groups).find((group) => held && held.label.includes(group)) || Object.keys(of.groups)[0];
      held = window.attnscopeHeads.atStep(last.figure, name, Math.min(at, steps.length - 1));
      stage();
    }
    draw();
  }
  function pause() {
    clearInterval(playing);
    playing = null;
    if (byId("play")) byId("play").textContent = "Play";
  }

  function saved(format) {
    const graph = byId("plot");
    if (graph.data) window.Plotly.downloadImage(graph, { width: graph.clientWidth, height: graph.clientHeight, scale: format === "png" ? 2 : 1, format: format, filename: "attnscope-" + state.view });
  }
  function csv() {
    const rows = [["curve", "x", "y", "z"]];
    last.figure.data.forEach((trace) => {
      if (trace.z) trace.y.forEach((y, i) => trace.x.forEach((x, j) => rows.push([trace.name || "", x, y, (trace.customdata || trace.z)[i][j] ?? ""])));
      else trace.x.forEach((x, i) => rows.push([trace.name || "", x ?? "", trace.y[i] ?? "", ""]));
    });
    const text = rows.map((row) => row.map((cell) => (/[",\n]/.test(cell) ? `"${String(cell).replace(/"/g, '""')}"` : cell)).join(",")).join("\n");
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `attnscope-${state.view}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  function copied(text) {
    const area = make("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }

  function wire() {
    byId("png").onclick = () => last && saved("png");
    byId("svg").onclick = () => last && saved("svg");
    byId("csv").onclick = () => last && csv();
    byId("copy-link").onclick = (event) => {
      copied(window.location.href);
      event.target.textContent = "Copied";
      setTimeout(() => { event.target.textContent = "Copy link"; }, 1500);
    };
    byId("frame").oninput = (event) => { pause(); seek(Number(event.target.value)); };
    byId("play").onclick = () => {
      if (playing) return pause();
      if (frame === null || frame >= last.frames - 1) frame = 0;
      byId("play").textContent = "Pause";
      playing = setInterval(() => (frame >= last.frames - 1 ? pause() : seek(frame + 1)), 100);
    };
  }

  window.addEventListener("hashchange", route);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== width || document.documentElement.classList.contains("presenting")) setTimeout(draw, 0); width = window.innerWidth; });
  route();
})();
