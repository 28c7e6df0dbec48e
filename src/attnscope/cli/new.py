"""`attnscope new task|predictor|claim NAME`: a working file of yours with its test beside it.

Both are written outside the package, and neither over a file that is there. The patterns are the
files templates/KIND.txt and templates/KIND_test.txt: $Name, $name and $word stand for the name as a
class, as a module and as a word.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from attnscope.cli.common import Json, app
from attnscope.cli.completion import some_of
from attnscope.cli.json_text import print_json
from attnscope.errors import AttnscopeError, bad
from attnscope.files import whole_file

OF = "attnscope new"
KINDS = ("task", "predictor", "claim")
# what one does next with each
NEXT = {
    "task": "attnscope risk --task {name}.py:{Name} --dim 10 --length 5",
    "predictor": "PYTHONPATH=. attnscope risk --predictor {name}:{word}",
    "claim": "python {name}.py",
}


@app.command("new")
def new_command(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="task, predictor or claim.", autocompletion=some_of(*KINDS)
        ),
    ],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name: SignLocation, or sign-location.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of both files.")] = Path("."),
    as_json: Json = False,
) -> None:
    """Write a working file for a task, a predictor or a claim of yours,
    and a test that runs.
    """
    if kind not in KINDS:
        raise bad("KIND", OF, f"one of {', '.join(KINDS)}", kind)
    words = _words(name)
    _check_folder(out)
    targets = {
        out / f"{words['name']}.py": f"{kind}.txt",
        out / f"test_{words['name']}.py": f"{kind}_test.txt",
    }
    for target in targets:  # both, before either is written
        if target.exists():
            must = "the name of files that are not there yet"
            raise bad("NAME", OF, must, f"{target.name}, which is", "another name or --out")
    for target, pattern in targets.items():
        text = (files("attnscope.cli") / "templates" / pattern).read_text(encoding="utf-8")
        with whole_file(target, OF, "--out") as part:
            part.write_text(Template(text).substitute(words), encoding="utf-8", newline="\n")
    written = [str(target) for target in targets]
    if as_json:
        print_json({"written": written})
        return
    print(f"written: {written[0]} and {written[1]}")
    print(f"try: {NEXT[kind].format(**words)}")
    print(f"     python -m pytest {written[1]}")


def _words(name: str) -> dict[str, str]:
    """$name, $Name and $word, or one sentence."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower().split("_")
    module = "_".join(parts)
    must = "letters and digits, as SignLocation or sign-location"
    if not (module.isidentifier() and module.isascii() and all(parts)):
        raise bad("NAME", OF, must, f"{name!r}")
    if keyword.iskeyword(module) or importlib.util.find_spec(module) is not None:
        got = f"{module}, which Python has already"
        raise bad("NAME", OF, "the name of a module that is not there yet", got, f"my-{name}")
    class_name = "".join(part[0].upper() + part[1:] for part in parts)
    return {"name": module, "Name": class_name, "word": "-".join(parts)}


def _check_folder(out: Path) -> None:
    if not out.is_dir():
        raise bad("--out", OF, "a folder", f"{out} (none there)", "mkdir first")
    package = Path(str(files("attnscope"))).resolve()
    if out.resolve() == package or package in out.resolve().parents:
        raise AttnscopeError(
            f"--out of {OF} must be a folder outside the package, got {out}; try --out ~/my_paper."
        )
