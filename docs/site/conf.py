"""Sphinx's settings. ``docs/site/build.py`` puts the pages and this folder into one folder, and runs Sphinx there."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference
from docutils import nodes
from sphinx.util.nodes import make_refnode

from thinconsumer import __version__

project = "thinconsumer"
author = "the authors of thinconsumer"
release = version = __version__
language = "en"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
nitpicky = True

html_theme = "furo"
html_title = f"thinconsumer {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/icon.svg"
pygments_dark_style = "github-dark"
html_show_sphinx = False

# GitHub's anchors, so that a link to a heading works there and here.
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_mock_imports = reference.MOCKED
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
#: The list of options, which is generated: docs/options.md has it as a table.
OPTIONS = re.compile(r"\nOptions:\n.*", re.DOTALL)
PAGE = re.compile(r"\bdocs/([\w-]+)\.md")


def adapt_docstring(app, what, name, obj, options, lines):
    """Change a docstring before napoleon reads it."""
    text = OPTIONS.sub("", "\n".join(lines))
    lines[:] = PAGE.sub(r":doc:`/\1`", text).split("\n")
    if what in ("attribute", "property", "data"):
        lines.insert(0, "")  # else napoleon takes what is before a colon for the type


def find_public(app, env, node, contnode):
    """Return a link to a public name that a docstring names without its module; types in signatures need none."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    found = domain.find_obj(env, None, None, node["reftarget"], node["reftype"], 1)
    pages = [entry for name, entry in found if name.startswith("thinconsumer.")]
    if pages:
        return make_refnode(app.builder, node["refdoc"], pages[0].docname, pages[0].node_id, contnode)
    return None if isinstance(contnode, nodes.literal) else contnode


def setup(app):
    app.connect("autodoc-process-docstring", adapt_docstring, priority=400)
    app.connect("missing-reference", find_public)
