/* Tours: a step's sentences into their places, its short address, and presenter mode with keys. */
(function () {
  const tour = () => document.getElementById("tour");
  const page = document.documentElement;

  // The query to show for these knobs: none for a step's own, and never none for others
  function search(query) {
    const here = tour();
    if (!here) return query;
    return query === here.dataset.preset ? "" : query || here.dataset.spelled;
  }

  // The texts are our own, set by attnscope.formulas: nothing that somebody typed is among them
  function fill(texts) {
    if (!texts) return null;
    const places = ["sentence", "formula", "question", "answer"].map((name) => [document.getElementById("tour-" + name), texts[name]]);
    if (places.some(([place]) => !place)) setTimeout(fill, 20, texts);
    else places.forEach(([place, html]) => (place.innerHTML = html));
    return texts.title;
  }

  function present(on) {
    page.classList.toggle("presenting", on);
    const button = document.getElementById("tour-present");
    if (button) button.setAttribute("aria-pressed", String(on));
    window.dispatchEvent(new Event("resize"));
    window.dispatchEvent(new Event("attnscope-resized"));
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest && event.target.closest("#tour-present")) present(!page.classList.contains("presenting"));
  });

  const steps = () => [...document.querySelectorAll(".tour-ways ol a")];
  const ways = {
    ArrowRight: () => document.getElementById("tour-next"),
    ArrowLeft: () => document.getElementById("tour-previous"),
    PageDown: () => document.getElementById("tour-next"),
    PageUp: () => document.getElementById("tour-previous"),
    Home: () => steps()[0],
    End: () => steps().pop(),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest && event.target.closest("input, textarea, select");
    if (!tour() || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const presenting = page.classList.contains("presenting");
    if (event.key === "p") present(!presenting);
    else if (!presenting) return;
    else if (event.key === "Escape") present(false);
    else if (event.key in ways) {
      // the tour ends at its ends: a presenter's extra key press leaves it where it is
      const link = ways[event.key]();
      if (link && link.pathname !== "/tour") link.click();
    } else return;
    event.preventDefault();
  });

  window.attnscopeTours = { search: search, fill: fill };
})();
