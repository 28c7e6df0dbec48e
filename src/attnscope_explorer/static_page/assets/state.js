/* The address and its knobs: window.attnscopeState. #/landscape?predictor=linear&dim=80 as on the live page, behind a
   hash, so that it works from a file. A value that cannot be used is replaced by its default and reported in one
   sentence, in the words of attnscope_explorer/fields.py. */
(function () {
  "use strict";
  const table = () => window.attnscopeKnobs;

  const defaultOf = (view, name) => table().knobs[name].defaults[view] ?? table().knobs[name].default;
  // what 0.2 called NEW_NAME in its links, until 0.5 (attnscope/deprecated.py)
  const NEW_NAME = "inverse_temperature", OLD_NAME = NEW_NAME.slice("inverse_".length);
  const plain = (value) => (value === null ? "none" : String(value));

  // The value that a text means, or throws a sentence
  function parsed(name, text, view) {
    const field = table().knobs[name];
    if (field.options) {
      if (text in field.options) return text;
      throw `${name} of this page must be one of ${Object.keys(field.options).join(", ")}, got '${text.slice(0, 40)}'; attnscope explore has more.`;
    }
    if (field.optional && ["none", field.absent].includes(text.trim().toLowerCase())) return null;
    const value = text.trim() === "" ? NaN : Number(text.replace(/_/g, ""));
    if (value >= field.low && value <= field.high && (!field.whole || Number.isInteger(value))) return value;
    const kind = field.whole ? "a whole number" : "a number";
    const none = field.optional ? ", or " + field.absent : "";
    throw `${name} of this page must be ${kind} from ${plain(field.low)} to ${plain(field.high)}${none}, got '${text.slice(0, 40)}'; try ${name}=${defaultOf(view, name) ?? field.absent}.`;
  }

  // {values, sentences} of a query
  function parse(view, query) {
    const names = table().views[view].knobs, values = {}, sentences = [];
    names.forEach((name) => { values[name] = defaultOf(view, name); });
    const given = [...new URLSearchParams(query)], old = (x) => x === OLD_NAME;
    if (given.some((pair) => pair.some(old))) sentences.push(`${OLD_NAME} is now ${NEW_NAME}; the old name works until 0.5.`);
    given.map((pair) => pair.map((x) => (old(x) ? NEW_NAME : x))).forEach(([name, text]) => {
      try {
        if (!names.includes(name)) throw `a name of the address of /${view} must be one of ${names.join(", ")}, got '${name.slice(0, 40)}'; attnscope explore has more.`;
        values[name] = parsed(name, text, view);
      } catch (sentence) {
        if (typeof sentence !== "string") throw sentence;
        sentences.push(sentence);
      }
    });
    return { values: values, sentences: sentences };
  }

  // The query that reopens these values: what differs from the view's defaults, in the table's order
  function query(view, values) {
    const out = new URLSearchParams();
    table().views[view].knobs.forEach((name) => {
      if (values[name] !== undefined && values[name] !== defaultOf(view, name)) out.append(name, plain(values[name]));
    });
    return out.toString();
  }

  // The query that takes the task and inverse temperature to another view, and the dimension also where it was not chosen
  function carried(view, values, to) {
    const kept = {};
    table().views[to].knobs.forEach((name) => {
      if (name in values && values[name] !== defaultOf(view, name)) kept[name] = values[name];
    });
    if ("dim" in values && table().views[to].knobs.includes("dim")) kept.dim = values.dim;
    return query(to, kept);
  }

  const address = (view, text) => "#/" + view + (text ? "?" + text : "");

  window.attnscopeState = { parse: parse, parsed: parsed, query: query, carried: carried, address: address, plain: plain };
})();
