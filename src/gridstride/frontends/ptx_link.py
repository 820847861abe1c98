"""Several PTX texts made one, as a linker does: what one declares `.extern` and another defines meets, and what no kernel reaches is left out.

Compilers that write a text for each part of a program (NVVM when it debugs, NVRTC for what a kernel links) leave this to the driver's linker,
which gives machine code. The simulator needs PTX, and PTX has no file format for it, so it is done on the text (PTX ISA 10, linking
directives). A lone text goes through with its debug sections; of several texts only the names of inlined functions are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gridstride.errors import CompileError

_SKIP = r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"'
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_LINE = re.compile(r"\.(?:version|target|address_size|file)\b[^\n]*|@@[^\n]*")
_ENDS = re.compile(rf"{_SKIP}|[{{}};]", re.DOTALL)
_FUNCTION = re.compile(r"\.(entry|func)\b\s*(?:\.attribute\s*\([^)]*\)\s*)?(?:\([^)]*\)\s*)?([A-Za-z_$%][\w$]*)")
_VARIABLE = re.compile(r"([A-Za-z_$%][\w$]*)\s*(?:\[[^\]]*\]\s*)*(?:=|;)")
_IDENTIFIER = re.compile(rf"{_SKIP}|[A-Za-z_$%][\w$]*", re.DOTALL)
_FILE = re.compile(r'\.file\s+(\d+)\s+("(?:[^"\\]|\\.)*")')
_PLACE = re.compile(r"(\.loc\s+|inlined_at\s+)(\d+)(?=\s)")
_STRINGS = re.compile(r"\.section\s+\.debug_str\s*\{(.*)\}", re.DOTALL)
_LABEL = re.compile(r"\$L__info_string\d+\b")
_VERSION = re.compile(r"\.version\s+(\d+)\.(\d+)")


@dataclass(frozen=True)
class _Item:
    """One thing at the top of a module. kind: line, section, alias, variable, func, entry; linkage: "" for what only its module sees."""

    kind: str
    text: str
    name: str = ""
    linkage: str = ""
    defined: bool = True

    @property
    def prototype(self) -> str:
        return self.text[: _body(self.text)].rstrip() + "\n;"


def link(texts: Sequence[str], *, provided: frozenset[str] = frozenset()) -> str:
    """One text of all. Raises CompileError where two texts define the same name. Names that nothing defines stay `.extern`.

    provided: names that whoever runs the text has himself (`vprintf`).
    """
    modules = [list(_items(text)) for text in texts]
    if len(modules) > 1:
        modules = _apart(modules)
    defined: dict[str, _Item] = {}
    declared: dict[str, _Item] = {}
    for item in (item for items in modules for item in items if item.name):
        if not item.defined:
            declared.setdefault(item.name, item)
        elif item.name not in defined:
            defined[item.name] = item
        elif item.linkage not in (".weak", ".common") and defined[item.name].linkage not in (".weak", ".common"):
            raise CompileError(f"`{item.name}` is defined twice in what is linked")
    wanted = _reached(defined, declared)
    kept = {name: item for name, item in defined.items() if name in wanted}
    missing = [item for name, item in declared.items() if name in wanted and name not in kept]
    lines = [item for items in modules for item in items if item.kind in ("line", "section")]
    return _text(lines, missing, list(kept.values()))


def undefined(ptx: str, *, provided: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The functions that the text calls and does not have."""
    return tuple(item.name for item in _items(ptx) if item.kind == "func" and not item.defined and item.linkage == ".extern" and item.name not in provided)


def _text(lines: list[_Item], missing: list[_Item], kept: list[_Item]) -> str:
    version = max(((int(a), int(b)) for line in lines for a, b in _VERSION.findall(line.text)), default=(8, 0))
    target = next((line.text for line in lines if line.text.startswith(".target")), ".target sm_90")
    sections = [line.text for line in lines if line.kind == "section"]
    if not any(".debug_info" in section for section in sections):
        target = re.sub(r"\s*,\s*debug\b", "", target)  # which promises the sections that are not there
    files = dict.fromkeys(line.text for line in lines if line.text.startswith(".file"))
    functions = [item for item in kept if item.kind in ("func", "entry")]
    parts = [
        f".version {version[0]}.{version[1]}",
        target,
        ".address_size 64",
        *files,
        *(item.text for item in missing),
        *(item.prototype for item in functions if item.kind == "func"),
        *(item.text for item in kept if item.kind in ("variable", "alias")),
        *(item.text for item in functions),
        *sections,
    ]
    return "\n".join(parts) + "\n"


def _reached(defined: dict[str, _Item], declared: dict[str, _Item]) -> set[str]:
    """The names that the kernels need, over any number of steps."""
    wanted: set[str] = set()
    waiting = [name for name, item in defined.items() if item.kind == "entry"]
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            if name in defined:
                waiting += [other for other in _identifiers(defined[name].text) if other in defined or other in declared]
    return wanted


def _apart(modules: list[list[_Item]]) -> list[list[_Item]]:
    """Names that only their module sees, made different where two modules use the same; files numbered through; of the debug sections the
    strings, of which `.loc` takes the names of inlined functions (PTX ISA 11.5.4)."""
    taken = {item.name for items in modules for item in items if item.linkage}
    files: dict[str, int] = {}
    result = []
    strings = ""
    for number, items in enumerate(modules):
        renamed = {item.name: f"{item.name}${number}" for item in items if item.name and not item.linkage and item.kind != "entry" and item.name in taken}
        taken |= {item.name for item in items if item.name}
        numbers = {}
        for item in items:
            if match := _FILE.match(item.text):
                numbers[match[1]] = files.setdefault(match[2], len(files) + 1)
        result.append([_renamed(item, renamed, numbers, number) for item in items if item.kind != "section"])
        strings += "".join(_LABEL.sub(rf"\g<0>${number}", match[1]) for item in items if (match := _STRINGS.match(item.text)))
    if strings:
        result.append([_Item("section", f".section .debug_str\n{{{strings}}}")])
    return result


def _renamed(item: _Item, names: dict[str, str], numbers: dict[str, int], module: int) -> _Item:
    text = item.text
    if match := _FILE.match(text):
        return replace(item, text=f".file {numbers[match[1]]} {match[2]}")
    if names:
        text = _IDENTIFIER.sub(lambda m: names.get(m[0], m[0]), text)
    if item.kind in ("func", "entry"):
        text = _PLACE.sub(lambda m: m[1] + str(numbers.get(m[2], m[2])), text)
        text = _LABEL.sub(rf"\g<0>${module}", text)
    return replace(item, text=text, name=names.get(item.name, item.name))


def _identifiers(text: str) -> set[str]:
    return {match[0] for match in _IDENTIFIER.finditer(text) if match[0][0] not in '"/'}


def _items(text: str) -> Iterator[_Item]:
    position = 0
    while True:
        if blank := _BLANK.match(text, position):
            position = blank.end()
        if position >= len(text):
            return
        if line := _LINE.match(text, position):
            yield _Item("line", line[0].rstrip())
            position = line.end()
            continue
        end = _end(text, position)
        part = text[position:end]
        position = end
        if part.strip(";\0 \n"):
            yield _declaration(part)


def _declaration(part: str) -> _Item:
    if part.startswith(".section"):
        return _Item("section", part)
    if part.startswith(".alias"):
        return _Item("alias", part, part.split()[1].rstrip(","), ".visible")
    linkage = next((word for word in (".extern", ".visible", ".weak", ".common") if re.match(rf"\s*{re.escape(word)}\b", part)), "")
    head = part[: _body(part)]
    if match := _FUNCTION.search(head):
        return _Item(match[1], part, match[2], linkage, defined=len(head) < len(part.rstrip(";\n ")))
    match = _VARIABLE.search(part)
    return _Item("variable", part, match[1] if match else "", linkage, defined=linkage != ".extern")


def _body(part: str) -> int:
    """Where a function's body begins; at the end for a prototype."""
    brace = next((match.start() for match in _ENDS.finditer(part) if match[0] == "{"), None)
    return part.rstrip().removesuffix(";").__len__() if brace is None else brace


def _end(text: str, start: int) -> int:
    """Behind the declaration that begins at `start`: its semicolon, or the closing brace of a body or a section."""
    depth = 0
    assigned = False
    for match in _ENDS.finditer(text, start):
        sign = match[0]
        if sign == "{":
            assigned = assigned or "=" in text[start : match.start()]
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0 and not assigned:
                return match.end()
        elif sign == ";" and depth == 0:
            return match.end()
    return len(text)
