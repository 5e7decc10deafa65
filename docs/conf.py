"""Configuration of the documentation site, which `make docs` builds from the root of the repository."""

import os
import sys
from pathlib import Path

import warpsim as ws

ROOT = Path(__file__).resolve().parents[1]

# The kernels of executed pages import the same warpsim as the API reference does, from any folder.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])

# The reference shows the models under their public names, wherever their modules are.
for model in ws.models.NAMES:
    sys.modules.setdefault(f"warpsim.models.{model}", ws.models.load(model))

project = "warpsim"
author = "the warpsim developers"
copyright = f"2026, {author}"
release = ws.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]

# Pages are read where they are in the repository, so that their links work there as well as on the site.
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "experiments/README.md",
    "experiments/*/README.md",
    "experiments/notebooks/*.ipynb",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = [".*", "build", "results", "tests", "warpsim"]
html_extra_path = ["_extra"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_execution_timeout = 600  # a first run compiles the engine
nb_ipywidgets_js = {}  # no page has widgets, whose scripts would come from a CDN
nb_merge_streams = True

default_role = "py:obj"  # single backticks link to the API where they name a part of it, and are code elsewhere
autodoc_member_order = "bysource"
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}  # not spelled out
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Settings", "params_style")]
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"warpsim {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"


SECTIONS = {f"{name}:" for name in ("Args", "Attributes", "Returns", "Raises", "Settings", "Yields", "Example", "Examples")}


def prepare_docstring(app, what, name, obj, options, lines):
    """Turns indented paragraphs into literal blocks, as Markdown does, and keeps `Returns:` from being split at a colon."""
    result = []
    inside = ""  # of what the present line is a part: "section", "block" or neither
    for before, line in zip(["", *lines], lines, strict=False):
        if line and not line[0].isspace():
            inside = "section" if line in SECTIONS else ""
        elif line.startswith("    ") and not before and not inside:
            inside = "block"
            result += ["::", ""]
        elif before == "Returns:":  # napoleon takes what is before a colon in the first line for a type
            indent = line[: len(line) - len(line.lstrip())]
            first, _, line = line.strip().partition(" ")
            result.append(indent + first)
            line = indent + line
        result.append(line)
    lines[:] = result


def fields_only(app, what, name, obj, options, signature, return_annotation):
    """Shows the signature of a pydantic class without annotations, which repeat every check of a field."""
    fields = getattr(obj, "model_fields", None) if what == "class" else None
    if fields is None:
        return None
    defaults = {field: info.get_default(call_default_factory=True) for field, info in fields.items() if not info.is_required()}
    shown = (f"{field}={defaults[field]!r}" if field in defaults else field for field in fields)
    return f"(*, {', '.join(shown)})", None


def setup(app):
    """Registers the treatment of docstrings, before napoleon's, and of signatures."""
    app.connect("autodoc-process-signature", fields_only)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=100)
