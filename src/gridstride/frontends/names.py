"""Kernel names as people write them, found among the names that the compiler made of them (Itanium C++ ABI, section 5.1)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gridstride.errors import UsageError

_ANONYMOUS = re.compile(r"^(?:_GLOBAL__N_|_INTERNAL_)")


@dataclass(frozen=True)
class PlainName:
    """A demangled name: `path` is its namespaces and itself, `arguments` its template arguments (None: not a template), `parameters` its signature.

    What the demangler cannot read (local types, expressions) is None too; the path is then still right.
    """

    path: tuple[str, ...]
    arguments: tuple[str, ...] | None
    parameters: tuple[str, ...] | None

    @property
    def base(self) -> str:
        return self.path[-1]

    @property
    def qualified(self) -> str:
        return "::".join(self.path)

    @property
    def short(self) -> str:
        """As it is written to launch it: `ns::scale<float, 4>`."""
        return self.qualified if self.arguments is None else f"{self.qualified}<{', '.join(self.arguments)}>"

    @property
    def full(self) -> str:
        """With its parameter types, which tell overloads apart."""
        return self.short if self.parameters is None else f"{self.short}({', '.join(self.parameters)})"


@cache
def demangle(symbol: str) -> PlainName:
    """The plain name of a symbol; a symbol that is not mangled (extern "C") is its own."""
    if not symbol.startswith("_Z"):
        return PlainName((symbol,), None, None)
    import itanium_demangler

    try:
        tree: Any = itanium_demangler.parse(symbol)
        if tree is not None and tree.kind == "func":
            name = tree.name
            while name.kind in ("cv_qual", "abi"):
                name = name.value
            parts = list(name.value) if name.kind == "qual_name" else [name]
            path = tuple(_visible(str(part)) for part in parts if part.kind != "tpl_args")
            arguments = next((_template_arguments(part) for part in reversed(parts) if part.kind == "tpl_args"), None)
            parameters = tuple(_spelled(p) for p in tree.arg_tys if str(p) != "void")
            path = tuple(part for part in path if part)
            if path:
                return PlainName(path, arguments, parameters)
    except (NotImplementedError, ValueError, IndexError, AttributeError, TypeError, KeyError):
        pass
    return PlainName(_path_alone(symbol), None, None)


def _visible(component: str) -> str:
    return "" if _ANONYMOUS.match(component) else component


def _template_arguments(node: Any) -> tuple[str, ...]:
    return tuple(text for argument in node.value for text in _argument(argument))


def _argument(node: Any) -> list[str]:
    if node.kind == "tpl_arg_pack":
        return [text for inner in node.value for text in _argument(inner)]
    if node.kind == "literal":
        value, kind = str(node.value), str(node.ty)
        if kind == "bool":
            return ["true" if value == "1" else "false"]
        return [f"-{value[1:]}" if value.startswith("n") else value]
    return [_spelled(node)]


def _spelled(node: Any) -> str:
    """A type in the spelling people use: `const float*` rather than `float const*`."""
    text = re.sub(r"\((?:unsigned |signed )?\w+(?: \w+)*\)(n?\d+)", lambda m: m.group(1).replace("n", "-"), str(node))
    return re.sub(r"^([\w:]+(?: (?:int|long|char|short))*) const(?=[*&]|$)", r"const \1", text)


_COMPONENT = re.compile(r"(\d+)")


def _path_alone(symbol: str) -> tuple[str, ...]:
    """The identifiers at the front of a mangled name, each spelled after its length."""
    position = 2
    nested = symbol[position : position + 1] == "N"
    position += 1 if nested else 0
    while symbol[position : position + 1] in ("K", "V", "r", "L"):
        position += 1
    path: list[str] = []
    while match := _COMPONENT.match(symbol, position):
        length = int(match.group(1))
        component = symbol[match.end() : match.end() + length]
        position = match.end() + length
        if _visible(component):
            path.append(component)
        if not nested:
            break
        if symbol[position : position + 1] == "L":
            position += 1
    return tuple(path) or (symbol,)


def normalised(name: str) -> str:
    """A name without the blanks, `(anonymous namespace)::`, leading `::` and `&` that do not change what it means."""
    text = re.sub(r"\(anonymous namespace\)::|<unnamed>::", "", name)
    text = re.sub(r"\s+", " ", text).strip().lstrip("&").strip()
    text = re.sub(r" ?([<>,*&():\[\]]) ?", r"\1", text)
    # The literal suffixes and the two spellings of a constant type mean the same.
    text = re.sub(r"(?<![\w])(-?\d+)[uUlL]+(?!\w)", r"\1", text)
    text = re.sub(r"(?<=[<,(])([\w:]+) const(?=[*&,>)])", r"const \1", text)
    return text.removeprefix("::")


@dataclass(frozen=True)
class KernelNames:
    """The kernels of one source. `lowered` maps the name expressions that the compiler was given to their entries."""

    entries: tuple[str, ...]
    lowered: Mapping[str, str] = field(default_factory=dict)
    source: str = "the source"
    templates: frozenset[str] = frozenset()

    def find(self, name: str) -> str | None:
        """The entry that a name means, or None. Raises UsageError when it means several."""
        if name in self.entries:
            return name
        wanted = normalised(name)
        for expression, entry in self.lowered.items():
            if normalised(expression) == wanted:
                return entry
        plain = {entry: demangle(entry) for entry in self.entries}
        # From the most to the least specific way to say it; the first one that fits anything decides.
        spellings: tuple[dict[str, str], ...] = (
            {entry: normalised(p.full) for entry, p in plain.items()},
            {entry: normalised(p.short) for entry, p in plain.items()},
            {entry: normalised(f"{p.base}{p.short.removeprefix(p.qualified)}") for entry, p in plain.items()},
            {entry: p.qualified for entry, p in plain.items()},
            {entry: p.base for entry, p in plain.items()},
        )
        for spelling in spellings:
            fits = [entry for entry, text in spelling.items() if text == wanted]
            if len(fits) == 1:
                return fits[0]
            if fits:
                raise UsageError(f"{name!r} means {len(fits)} kernels of {self.source}; say which: {self._list(fits)}")
        return None

    def entry(self, name: str) -> str:
        """The entry that a name means: an entry's own name, `ns::scale<float>`, `scale<float>`, `scale` or `scale(float*, int)`.

        Raises UsageError when nothing fits or several do.
        """
        found = self.find(name)
        if found is not None:
            return found
        base = normalised(name).partition("<")[0].split("::")[-1]
        if base in self.templates:
            instances = [entry for entry in self.entries if demangle(entry).base == base]
            have = f"; instances there are: {self._list(instances)}" if instances else ""
            example = f"{base}<float>" if normalised(name) == base else name
            raise UsageError(f"{name!r} of {self.source} is a template: name the instance to compile, as in {example!r}{have}")
        if not self.entries:
            raise UsageError(f"there is no kernel {name!r} in {self.source}: it has no kernels at all")
        close = difflib.get_close_matches(name, [demangle(entry).short for entry in self.entries], n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise UsageError(f"there is no kernel {name!r} in {self.source}{hint}; it has: {self._list(self.entries)}")

    def display(self, entry: str) -> str:
        """How people write an entry: short where that is enough, with parameter types where kernels are overloaded."""
        plain = demangle(entry)
        alone = sum(demangle(other).short == plain.short for other in self.entries) <= 1
        return plain.short if alone else plain.full

    def _list(self, entries: Iterable[str], most: int = 20) -> str:
        names = [self.display(entry) for entry in entries]
        more = f" and {len(names) - most} more" if len(names) > most else ""
        return ", ".join(names[:most]) + more
