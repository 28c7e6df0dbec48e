"""Sphinx: MyST pages, the furo theme, mathematics as MathML (no script, no outside request), the
gallery and references made from the code.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import attnscope  # noqa: E402

project = "attnscope"
author = "the attnscope authors"
copyright = author
version = release = attnscope.__version__

extensions = [
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "from_code",
    "notebooks",
    "links",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "_ext",
    "_templates",
    "notebooks",
    "gallery/*.md5",
    "sg_execution_times.rst",
]
suppress_warnings = [
    "config.cache"
]  # the scraper below is a function, which has no stable pickle: only the cache is lost

html_theme = "furo"
html_title = "attnscope"
html_static_path = ["_static"]
html_css_files = ["attnscope.css"]
html_math_renderer = "mathml"
# furo's own, with the way to the report and the explorer where they are (make site)
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "site_links.html",
        "sidebar/scroll-end.html",
    ]
}


def written_pictures(block, block_vars, gallery_conf):
    """sphinx-gallery's scraper: the pictures an example wrote beside itself become its pictures on
    the page; of one that found its data not installed, the picture kept for it.
    """
    from shutil import copy, move

    from sphinx_gallery.scrapers import figure_rst

    example = Path(block_vars["src_file"])
    paths = []
    for source in sorted(example.parent.glob("*.png")):
        target = next(block_vars["image_path_iterator"])
        move(source, target)
        paths.append(target)
    kept = HERE / "pictures" / "gallery" / f"{example.stem}.png"
    if not paths and block[0] == "code" and kept.exists():
        target = next(block_vars["image_path_iterator"])
        copy(kept, target)
        paths.append(target)
    return figure_rst(paths, gallery_conf["src_dir"])


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__",
    "image_scrapers": (written_pictures,),
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "write_computation_times": False,  # its table would load scripts from other hosts
}
