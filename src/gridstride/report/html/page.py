"""Templates to pages."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from gridstride.report.html.number import LETTERS, MEANINGS


def render(template: str, **content: Any) -> str:
    """The page of one template of `templates/`. Everything is escaped but what is `Markup`, which only the makers of SVG make."""
    return _environment().get_template(template).render(**content)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    folder = files("gridstride.report.html") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = Markup((folder / "style.css").read_text(encoding="utf-8"))
    environment.globals["marks"] = [(mark, LETTERS[mark], MEANINGS[mark]) for mark in MEANINGS]
    return environment
