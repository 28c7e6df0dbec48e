"""The reference of the public names, a page for each room, made from the code before each build.

A signature is read off the source, where it was written: defaults as somebody typed them, nothing
evaluated, and of a wrapped function its own arguments. A dataclass or a named tuple has no source of
its constructor; its fields are it.
"""

import ast
import inspect
import re
import textwrap
from functools import cache

import attnscope

# rooms in reading order, with their names on the page; a name's room is where it is defined
ROOMS = {
    "tasks": "Tasks",
    "predictors": "Predictors",
    "theory": "Theory",
    "dynamics": "Dynamics",
    "estimators": "Estimators",
    "corpora": "Corpora",
    "reproduction": "Claims and sweeps",
    "numerics": "Numbers, errors, figures",
}
# homes whose room has no page of its own
ELSEWHERE = {"sweeps": "reproduction", "errors": "numerics", "figures": "numerics"}
# values, which have no docstring of their own
VALUES = {
    "EXPERIMENTS": "The experiments of the paper, by name: what `run_experiment` takes."
}
WIDTH = 84  # of a signature on one line
SECTIONS = ("Args:", "Attributes:", "Returns:", "Parameters:")


def rooms():
    """Room -> its public names, as the package lists them."""
    found = {room: [] for room in ROOMS}
    for home, names in attnscope._HOME.items():
        room = home.partition(".")[0]
        found[ELSEWHERE.get(room, room)] += names
    return found


def anchor(name):
    """The id of a name's entry."""
    return f"at-{name.lower().replace('_', '-')}"


def where():
    """Public name -> (page, id)."""
    return {
        name: (f"generated/api_{room}", anchor(name))
        for room, names in rooms().items()
        for name in names
    }


def pages():
    """Page -> text: one of all rooms, and one for each."""
    out = {"names": overview()}
    for room, names in rooms().items():
        entries = [entry(name) for name in sorted(names, key=str.lower)]
        out[f"api_{room}"] = "\n".join([f"# {ROOMS[room]}\n", door(room), *entries])
    return out


def overview():
    """Every name in a line, by room."""
    parts = ["# Public names\n", "Everything `import attnscope as at` offers, by room.\n"]
    listed = "\n".join(f"api_{room}" for room in ROOMS)
    parts.append(f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n")
    for room, names in rooms().items():
        parts.append(f"## [{ROOMS[room]}](api_{room}.md)\n")
        for name in sorted(names, key=str.lower):
            said = marked(sentence(text_of(name)))
            parts.append(f"- [`{name}`](api_{room}.md#{anchor(name)}): {said}")
        parts.append("")
    return "\n".join(parts)


def door(room):
    """What the room says of itself, its first paragraph."""
    module = getattr(attnscope, room, None) if room in attnscope._SUBPACKAGES else None
    said = inspect.getdoc(module).split("\n\n")[0] if inspect.ismodule(module) else ""
    return f"{marked(' '.join(said.split()))}\n"


def entry(name):
    """A name with its signature, its docstring and, of a class, what its objects can do."""
    thing = getattr(attnscope, name)
    head = [f"({anchor(name)})=", f"## {name}\n"]
    if callable(thing):
        head.append(f"```python\n{broken(f'at.{name}{signature(thing)}')}\n```\n")
    body = docstring(text_of(name))
    return "\n".join([*head, body, members(thing), ""])


def text_of(name):
    return VALUES.get(name) or inspect.getdoc(getattr(attnscope, name)) or ""


# -- signatures ------------------------------------------------------------------------------------


def signature(thing):
    """As written: "(task, predictor, samples=20_000) -> Estimate"."""
    if inspect.isclass(thing):
        made = constructor(thing)
        return f"({arguments(made, 1)})" if made is not None else fields(thing)
    node = definition(inspect.unwrap(thing))
    returned = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"({arguments(node)}){returned}"


@cache
def definition(function):
    """The statement that defines it."""
    return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]


def constructor(kind):
    """The `__init__` that somebody wrote, or None."""
    for base in kind.__mro__:
        made = vars(base).get("__init__")
        if made is None or not base.__module__.startswith("attnscope"):
            continue
        made = inspect.unwrap(made)
        written = inspect.isfunction(made) and made.__code__.co_filename != "<string>"
        return definition(made) if written else None
    return None


def arguments(node, skipped=0):
    """The arguments of a definition, without the first `skipped`."""
    all_of = node.args
    plain = [*all_of.posonlyargs, *all_of.args]
    defaults = [None] * (len(plain) - len(all_of.defaults)) + all_of.defaults
    parts = [one(x, default) for x, default in zip(plain, defaults)][skipped:]
    if all_of.vararg or all_of.kwonlyargs:
        parts.append(f"*{one(all_of.vararg)}" if all_of.vararg else "*")
    parts += [one(x, default) for x, default in zip(all_of.kwonlyargs, all_of.kw_defaults)]
    if all_of.kwarg:
        parts.append(f"**{one(all_of.kwarg)}")
    return ", ".join(parts)


def one(x, default=None):
    """An argument with its annotation and its default."""
    kind = "" if x.annotation is None else f": {ast.unparse(x.annotation)}"
    if default is None:
        return x.arg + kind
    return f"{x.arg}{kind}{' = ' if kind else '='}{ast.unparse(default)}"


def fields(kind):
    """Of a class whose constructor nobody wrote: its fields, with their defaults as written."""
    try:
        names = inspect.signature(kind).parameters
    except ValueError:
        return "(...)"  # an exception: whatever exceptions take
    written = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("attnscope"):
            for line in definition(base).body:
                if isinstance(line, ast.AnnAssign):
                    written[line.target.id] = line
    return f"({', '.join(field(written[name]) for name in names)})"


def field(line):
    """A field with its default; of dataclasses.field the default inside."""
    value = line.value
    made = ""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        given = {keyword.arg: keyword.value for keyword in value.keywords}
        made = "()" if "default_factory" in given else ""
        value = given.get("default", given.get("default_factory"))
    default = "" if value is None else f" = {ast.unparse(value)}{made}"
    return f"{line.target.id}: {ast.unparse(line.annotation)}{default}"


def broken(text):
    """A long signature, one argument a line."""
    match = re.fullmatch(r"([\w.]+)\((.*)\)( -> .*)?", text)
    if len(text) <= WIDTH or match is None:
        return text
    name, inside, result = match.groups()
    parts = [""]
    depth = 0
    for letter in inside:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    lines = (f"    {part.strip()}," for part in parts)
    return "\n".join([f"{name}(", *lines, f"){result or ''}"])


def members(thing):
    """Methods and properties of ours, with the first sentence of each."""
    if not inspect.isclass(thing):
        return ""
    found = {}
    for base in reversed(thing.__mro__):
        if base.__module__.startswith("attnscope"):
            found |= {n: x for n, x in vars(base).items() if not n.startswith("_")}
    lines = []
    for name in sorted(found):
        member = getattr(found[name], "__func__", found[name])
        said = inspect.getdoc(member)
        if inspect.isfunction(member) and said:
            plain = isinstance(inspect.getattr_static(thing, name), staticmethod)
            call = arguments(definition(inspect.unwrap(member)), 0 if plain else 1)
            lines.append(f"- `.{name}({call})`: {marked(sentence(said))}")
        elif said and not callable(member) and type(member).__name__.endswith("property"):
            lines.append(f"- `.{name}`: {marked(sentence(said))}")
    return "\n".join(["\n**Methods and properties**\n", *lines, ""]) if lines else ""


# -- docstrings ------------------------------------------------------------------------------------


def sentence(text):
    """The first paragraph up to its first full stop before a space and a capital."""
    first = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[a-z)\d]\.) (?=[A-Z])", first)[0]


def docstring(text):
    """The house's docstrings as MyST: paragraphs, lists of arguments, examples, formulas."""
    return "\n\n".join(block(part) for part in re.split(r"\n\s*\n", text) if part.strip())


def block(part):
    if part.lstrip().startswith(">>>"):
        return f"```python\n{textwrap.dedent(part)}\n```"
    first, _, rest = part.partition("\n")
    if first.strip() in SECTIONS:
        return f"**{first.strip()[:-1]}**\n\n{listed(textwrap.dedent(rest))}"
    if first.startswith("    "):
        return f"```text\n{textwrap.dedent(part)}\n```"
    return marked(" ".join(part.split()))


def listed(text):
    """One item for each "name: what it is"."""
    items = []
    for line in text.splitlines():
        named = re.match(r"([\w*][\w, *()]*): (.*)", line)
        if named and not line.startswith(" "):
            items.append(f"- `{named[1]}`: {marked(named[2])}")
        elif items:
            items[-1] += f" {marked(line.strip())}"
        else:
            items.append(marked(line.strip()))
    return "\n".join(items)


def marked(text):
    """Plain text as Markdown: what would be markup is escaped, but for `code`."""
    parts = re.split(r"(``?[^`]+``?)", text)
    plain = [re.sub(r"([\\*_\[\]<>$|#{}~])", r"\\\1", part) for part in parts[::2]]
    code = [f"`{part.strip('`')}`" for part in parts[1::2]]
    return "".join(a + b for a, b in zip(plain, [*code, ""]))
