"""`attnscope new task|predictor|claim NAME`: a working file with its test beside it.
`attnscope new plugin NAME`: a folder that pip installs, with one of each and a paper.

Everything is written outside the package, and nothing over a file that is there. The patterns are
the files in templates/: $Name, $name and $word stand for the name as a class, as a module and as a
word, $family for the word without hyphens, with which the ids of a plugin's claims begin. The part
of a pattern between the lines @file and @end is left out of a plugin: there, entry points announce
what a single file registers itself.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Mapping
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
PLUGIN = "plugin"
KINDS = ("task", "predictor", "claim", PLUGIN)
FILE_PART = re.compile(r"^@file\n(.*?)^@end\n", re.MULTILINE | re.DOTALL)
# what one does next with each
NEXT = {
    "task": "attnscope risk --task {name}.py:{Name} --dim 10 --length 5",
    "predictor": "PYTHONPATH=. attnscope risk --predictor {name}:{word}",
    "claim": "python {name}.py",
}
# the files of a plugin, with the pattern of each; the task and the predictor are those of a single
# file under names of their own
PLUGIN_FILES = {
    "pyproject.toml": "plugin_pyproject",
    "README.md": "plugin_readme",
    "src/{name}/__init__.py": "plugin_init",
    "src/{name}/tasks.py": "task",
    "src/{name}/predictors.py": "predictor",
    "src/{name}/papers.py": "plugin_papers",
    "src/{name}/claims/__init__.py": "plugin_claims_init",
    "src/{name}/claims/{family}_01_first_claim.py": "plugin_claim",
    "tests/test_{name}.py": "plugin_test",
}
CLASS_ENDINGS = {"task": "Task", "predictor": "Attention"}


@app.command("new")
def new_command(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="task, predictor, claim or plugin.",
            autocompletion=some_of(*KINDS),
        ),
    ],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name: SignLocation, or sign-location.")
    ],
    out: Annotated[
        Path, typer.Option(help="Where the files, or the folder of a plugin, are written.")
    ] = Path("."),
    as_json: Json = False,
) -> None:
    """Write a working file for your own task, predictor or claim,
    and a test that runs; or a plugin, an installable folder with all of them.
    """
    if kind not in KINDS:
        raise bad("KIND", OF, f"one of {', '.join(KINDS)}", kind)
    words = _name_words(name)
    _check_folder(out)
    texts = _plugin_texts(out, words) if kind == PLUGIN else _file_texts(kind, out, words)
    for target, text in texts.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target, OF, "--out") as part:
            part.write_text(text, encoding="utf-8", newline="\n")
    written = [str(target) for target in texts]
    if as_json:
        print_json({"written": written})
    elif kind == PLUGIN:
        folder = out / words["word"]
        print(f"written: {len(written)} files in {folder}")
        print(f"try: pip install -e {folder}")
        print(f"     attnscope check-plugin {words['word']}")
        print(f"     python -m pytest {folder}")
    else:
        print(f"written: {written[0]} and {written[1]}")
        print(f"try: {NEXT[kind].format(**words)}")
        print(f"     python -m pytest {written[1]}")


def _file_texts(kind: str, out: Path, words: Mapping[str, str]) -> dict[Path, str]:
    """The file and its test, by path; one sentence where either is there."""
    texts = {
        out / f"{words['name']}.py": _filled_template(kind, words),
        out / f"test_{words['name']}.py": _filled_template(f"{kind}_test", words),
    }
    for target in texts:  # both, before either is written
        if target.exists():
            must = "the name of files that are not there yet"
            raise bad("NAME", OF, must, f"{target.name}, which is", "another name or --out")
    return texts


def _plugin_texts(out: Path, words: Mapping[str, str]) -> dict[Path, str]:
    """The files of a plugin, by path; one sentence where its folder is there."""
    from attnscope import __version__

    folder = out / words["word"]
    if folder.exists() or folder.is_symlink():
        must = "the name of a folder that is not there yet"
        raise bad("NAME", OF, must, f"{folder.name}, which is", "another name or --out")
    words = {**words, "version": __version__}
    texts = {}
    for path, pattern in PLUGIN_FILES.items():
        named = words | {"Name": words["Name"] + CLASS_ENDINGS.get(pattern, "")}
        texts[folder / path.format(**words)] = _filled_template(
            pattern, named, single_file=False
        )
    return texts


def _filled_template(pattern: str, words: Mapping[str, str], single_file: bool = True) -> str:
    """The text of a pattern with the names put in."""
    path = files("attnscope.cli") / "templates" / f"{pattern}.txt"
    text = FILE_PART.sub(r"\1" if single_file else "", path.read_text(encoding="utf-8"))
    return Template(text).substitute(words)


def _name_words(name: str) -> dict[str, str]:
    """$name, $Name, $word and $family, or one sentence."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower().split("_")
    module = "_".join(parts)
    must = "letters and digits, as SignLocation or sign-location"
    if not (module.isidentifier() and module.isascii() and all(parts)):
        raise bad("NAME", OF, must, f"{name!r}")
    if keyword.iskeyword(module) or importlib.util.find_spec(module) is not None:
        got = f"{module}, which Python has already"
        raise bad("NAME", OF, "the name of a module that is not there yet", got, f"my-{name}")
    class_name = "".join(part[0].upper() + part[1:] for part in parts)
    return {
        "name": module,
        "Name": class_name,
        "word": "-".join(parts),
        "family": "".join(parts),
    }


def _check_folder(out: Path) -> None:
    if not out.is_dir():
        raise bad("--out", OF, "a folder", f"{out} (none there)", "mkdir first")
    package = Path(str(files("attnscope"))).resolve()
    if out.resolve() == package or package in out.resolve().parents:
        raise AttnscopeError(
            f"--out of {OF} must be a folder outside the package, got {out}; try --out ~/my_paper."
        )
