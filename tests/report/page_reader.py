"""A page as its structure, read with Python's own parser: what a browser, and a person's screen reader, would find in it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "img", "br", "link", "input", "hr"}
ATTRIBUTES_WITH_ADDRESSES = ("src", "href", "srcset", "action", "data", "poster", "xlink:href")


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element | str] = field(default_factory=list)

    def all(self, tag: str) -> list[Element]:
        found = [self] if self.tag == tag else []
        for child in self.children:
            if isinstance(child, Element):
                found += child.all(tag)
        return found

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.open = Element("document", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs}, self.open)
        self.open.children.append(made)
        if tag not in VOID:
            self.open = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.tag == tag, f"</{tag}> closes <{self.open.tag}>"
        assert self.open.parent is not None
        self.open = self.open.parent

    def handle_data(self, data: str) -> None:
        self.open.children.append(data)


def read(page: str) -> Element:
    """The document. Asserts that every element is closed where it should be."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open is reader.root, f"<{reader.open.tag}> is never closed"
    return reader.root


def require_sound(document: Element) -> None:
    """Assert what holds for every page of ours: one language, title and main heading; nothing from outside and no script; tables with captions
    and scopes, pictures with words, headings in order, names that exist and are there once, everything that scrolls reachable by keyboard."""
    elements = _every(document)
    (html,) = document.all("html")
    assert html.attributes["lang"] == "en" and len(document.all("head")[0].all("title")) == 1 and len(document.all("h1")) == 1 and len(document.all("main")) == 1
    assert not document.all("script") and not document.all("link") and not [name for e in elements for name in e.attributes if name.startswith("on")]
    for element in elements:
        for name in ATTRIBUTES_WITH_ADDRESSES:
            if element.tag != "data" and name in element.attributes:
                assert element.attributes[name].startswith(("#", "data:image/")), element
    (style,) = document.all("style")
    assert "url(" not in style.text and "@import" not in style.text and "prefers-color-scheme: dark" in style.text
    for table in document.all("table"):
        assert len(table.all("caption")) == 1 and table.all("caption")[0].text.strip()
        assert all(th.attributes.get("scope") in ("col", "row") for th in table.all("th"))
        widths = {len([cell for cell in _every(row) if cell.tag in ("td", "th")]) for row in table.all("tr")}
        assert len(widths) == 1
    assert all(image.attributes.get("alt", "").strip() and image.attributes["width"] and image.attributes["height"] for image in document.all("img"))
    for drawing in document.all("svg"):
        assert drawing.attributes["role"] == "img" and drawing.all("title") and drawing.all("desc")[0].text.strip()
    levels = [int(e.tag[1]) for e in elements if e.tag in ("h1", "h2", "h3", "h4")]
    assert all(next_one <= before + 1 for before, next_one in itertools.pairwise(levels))
    names = [e.attributes["id"] for e in elements if "id" in e.attributes]
    assert len(names) == len(set(names))
    meant = [name for e in elements for name in e.attributes.get("aria-labelledby", "").split()] + [
        e.attributes["href"][1:] for e in document.all("a")
    ]
    assert set(meant) <= set(names)
    assert all(e.attributes.get("tabindex") == "0" for e in elements if "scroll" in e.attributes.get("class", "").split())


def _every(element: Element) -> list[Element]:
    return [found for child in element.children if isinstance(child, Element) for found in (child, *_every(child))]
