/* Filter and sort the claims. The page is complete without: the controls appear only with it. */
(function () {
  "use strict";
  var tools = document.getElementById("tools");
  var body = document.querySelector("table.summary tbody");
  if (!tools || !body) { return; }
  var rows = Array.prototype.slice.call(body.rows);
  var states = ["unexpected", "error", "declared", "condition", "skipped", "holds"];
  var find = document.getElementById("find");
  var state = document.getElementById("state");
  var paper = document.getElementById("paper");
  var relation = document.getElementById("relation");
  var order = document.getElementById("order");
  var shown = document.getElementById("shown");

  function words(row) {
    var section = document.getElementById(row.dataset.claim);
    var told = section ? section.querySelector(".words") : null;
    /* formulas are found as they are typed: gamma^2 */
    var typed = told ? Array.prototype.map.call(told.querySelectorAll("[data-plain], math"), function (p) {
      return p.dataset.plain || p.getAttribute("alttext") || "";
    }) : [];
    return [row.dataset.claim, row.textContent, told ? told.textContent : ""].concat(typed).join(" ").toLowerCase();
  }
  var texts = rows.map(words);

  var keys = {
    page: function (row) { return rows.indexOf(row); },
    state: function (row) { return states.indexOf(row.dataset.kind); },
    strain: function (row) { return -Number(row.dataset.strain); },
    seconds: function (row) { return -Number(row.querySelector("[data-seconds]").textContent); }
  };

  function wanted(row, i) {
    return texts[i].indexOf(find.value.trim().toLowerCase()) >= 0 &&
      (!state.value || row.dataset.kind === state.value) &&
      (!paper.value || row.dataset.paper === (paper.value === "none" ? "" : paper.value)) &&
      (!relation.value || row.dataset.relation === relation.value);
  }

  function update() {
    var count = 0;
    rows.forEach(function (row, i) {
      var yes = wanted(row, i);
      var section = document.getElementById(row.dataset.claim);
      row.hidden = !yes;
      if (section) { section.hidden = !yes; }
      count += yes ? 1 : 0;
    });
    var key = keys[order.value];
    rows.slice().sort(function (a, b) {
      return key(a) - key(b) || rows.indexOf(a) - rows.indexOf(b);
    }).forEach(function (row) { body.appendChild(row); });
    shown.textContent = count + " of " + rows.length + " claims shown";
  }

  function reset() {
    find.value = "";
    [state, paper, relation].forEach(function (choice) { choice.value = ""; });
    order.value = "page";
    update();
  }

  /* a link to a claim that is filtered out brings it back */
  function follow() {
    var section = document.getElementById(location.hash.slice(1));
    if (section && section.hidden) { reset(); section.scrollIntoView(); }
  }

  find.addEventListener("input", update);
  [state, paper, relation, order].forEach(function (choice) { choice.addEventListener("change", update); });
  document.getElementById("all").addEventListener("click", reset);
  window.addEventListener("hashchange", follow);
  tools.hidden = false;
  reset();
})();
