/* Tours: the step beside its view, presenter mode and its keys. The texts are the library's own, set as MathML when the page
   was built; classes and looks are those of the live page (assets/tours.css). #tour/NAME/3 is a step, #tours the list. */
(function () {
  "use strict";
  const make = (...all) => window.attnscopeControls.make(...all);
  const page = document.documentElement;
  const find = (name) => window.attnscopeTourList.find((tour) => tour.name === name);
  const html = (kind, name, text) => { const node = make(kind, name); node.innerHTML = text; return node; };
  const link = (text, href, name) => { const node = make("a", name || "", text); node.href = href; return node; };

  function ways(tour, k) {
    const last = tour.steps.length, nav = make("nav", "tour-ways"), list = make("ol");
    nav.setAttribute("aria-label", "Steps of this tour");
    tour.steps.forEach((step, i) => {
      const way = link(String(i + 1), `#tour/${tour.name}/${i + 1}`, i + 1 === k ? "here" : "");
      way.title = step.title;
      if (i + 1 === k) way.setAttribute("aria-current", "step");
      list.append(make("li", "", way));
    });
    const way = (to, text, id) => {
      const node = link(text, to >= 1 && to <= last ? `#tour/${tour.name}/${to}` : "#tours", "tour-way");
      node.id = id;
      return node;
    };
    nav.append(way(k - 1, k > 1 ? "Previous" : "Tours", "tour-previous"), list, way(k + 1, k < last ? "Next" : "Tours", "tour-next"));
    return nav;
  }

  function present(on) {
    page.classList.toggle("presenting", on);
    const button = document.getElementById("tour-present");
    if (button) button.setAttribute("aria-pressed", String(on));
    window.dispatchEvent(new Event("resize"));
  }

  // The k-th step as a panel
  function panel(tour, k) {
    const step = tour.steps[k - 1], section = make("section", "tour");
    section.id = "tour";
    section.setAttribute("aria-label", `Tour, step ${k} of ${tour.steps.length}`);
    const button = make("button", "", "Present");
    Object.assign(button, { type: "button", id: "tour-present", title: "p: larger, without knobs; then arrows, Home, End; p or Escape ends it" });
    button.setAttribute("aria-pressed", String(page.classList.contains("presenting")));
    button.addEventListener("click", () => present(!page.classList.contains("presenting")));
    const where = make("p", "", link("Tours", "#tours"), ` · ${tour.title} · ${k} of ${tour.steps.length}`);
    const answer = make("details", "", make("summary", "", "Answer"), html("div", "tour-text", step.html.answer));
    if (step.turned) answer.append(make("p", "tour-turn", link("Turn it for me", `#tour/${tour.name}/${k}?${step.turned}`)));
    const claims = make("p", "tour-claims", "Checked by the claims ", ...step.claims.flatMap((claim, i) => [make("code", "", claim), i + 1 < step.claims.length ? ", " : `: attnscope show ${step.claims[0]}`]));
    section.append(make("div", "tour-where", where, button), make("h2", "", step.title), html("div", "tour-text", step.html.sentence),
      html("div", "tour-formula", step.html.formula), html("div", "tour-text tour-question", step.html.question), answer, ways(tour, k));
    if (step.claims.length) section.append(claims);
    section.querySelector(".tour-formula").tabIndex = 0;
    section.querySelector(".tour-formula").setAttribute("role", "group");
    section.querySelector(".tour-formula").setAttribute("aria-label", "Formula");
    return section;
  }

  // Every tour with its steps
  function list() {
    const cards = make("div", "tour-cards");
    window.attnscopeTourList.forEach((tour) => {
      const steps = make("ol", "", ...tour.steps.map((step, i) => make("li", "", link(step.title, `#tour/${tour.name}/${i + 1}`))));
      cards.append(make("article", "", make("h3", "", link(tour.title, `#tour/${tour.name}/1`)), make("p", "", tour.summary), steps));
    });
    const title = make("div", "title", make("h2", "", "Guided tours"), make("p", "", "Each step is a sentence, a formula, a figure to look at, and a question."));
    return [title, cards];
  }

  // The tours in one line or two, for the start page
  function strip() {
    const links = window.attnscopeTourList.map((tour) => { const node = link(tour.title, `#tour/${tour.name}/1`); node.title = tour.summary; return make("li", "", node); });
    const nav = make("nav", "tour-strip", make("strong", "", "New here? Take a tour:"), make("ul", "", ...links));
    nav.setAttribute("aria-label", "Guided tours");
    return nav;
  }

  document.addEventListener("keydown", (event) => {
    const here = document.getElementById("tour");
    const typing = event.target.closest && event.target.closest("input:not([type=radio]), textarea, select, .stage-box");
    if (!here || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const presenting = page.classList.contains("presenting"), [, name, at] = window.location.hash.replace(/\?.*/, "").split("/");
    const tour = find(name), k = Number(at) || 1, last = tour.steps.length;
    if (event.key === "p") present(!presenting);
    else if (!presenting) return;
    else if (event.key === "Escape") present(false);
    else {
      const to = { ArrowRight: k + 1, PageDown: k + 1, ArrowLeft: k - 1, PageUp: k - 1, Home: 1, End: last }[event.key];
      if (to === undefined) return;
      // the tour ends at its ends: a presenter's extra key press leaves it where it is
      if (to >= 1 && to <= last) window.location.hash = `#tour/${name}/${to}`;
    }
    event.preventDefault();
  });

  window.attnscopeTours = { find: find, panel: panel, list: list, strip: strip, present: present };
})();
