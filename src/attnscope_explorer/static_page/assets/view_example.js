/* Views computed beforehand (static_page/examples.py): a script for each view, loaded when it is first wanted, because a
   page from a file may load scripts but not fetch. window.attnscopeExamples[view][query] is a record. */
(function () {
  "use strict";
  const waiting = {};

  function loaded(view, then) {
    window.attnscopeExamples = window.attnscopeExamples || {};
    if (window.attnscopeExamples[view] || !window.attnscopeHas.examples.includes(view)) return then(window.attnscopeExamples[view] || {});
    if (waiting[view]) return waiting[view].push(then);
    waiting[view] = [then];
    const script = document.createElement("script");
    script.src = `data/examples_${view}.js`;
    script.onload = () => { waiting[view].forEach((each) => each(window.attnscopeExamples[view])); delete waiting[view]; };
    document.head.appendChild(script);
  }

  // Every example of a view as [query, words]
  const listed = (view) => Object.entries((window.attnscopeExamples || {})[view] || {}).map(([query, record]) => [query, record.words]);

  function shown(record) {
    const out = { figure: record.figure, header: record.header, rows: record.rows, note: record.note + " Computed beforehand by attnscope.", code: record.code, hidden: [] };
    out.sentence = record.sentence;
    out.images = record.images;
    out.frames = record.figure.layout.meta.steps ? record.figure.layout.meta.steps.length : 0;
    return out;
  }

  window.attnscopeExample = { loaded: loaded, listed: listed, shown: shown };
})();
