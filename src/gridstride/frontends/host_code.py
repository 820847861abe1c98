"""Takes the host's part out of a .cu file.

NVIDIA's run-time compiler takes device code only: it refuses every function and variable without an execution or memory space.
People's files hold both. So what only the host can use is overwritten with blanks, directives and line ends kept, so that every
line of device code stays where it was and `-lineinfo` and error messages name the lines of the file as it is on disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from gridstride.errors import ParseError
from gridstride.frontends.cxx_declarations import (
    DEVICE_WORDS,
    Declaration,
    DeclarationKind,
    macro_words,
    member_declarations,
    parse_declarations,
    words_meaning,
)
from gridstride.frontends.cxx_tokens import TokenKind, closing_angle, tokenize

_CONSTANT_WORDS = frozenset({"const", "constexpr"})
_CONSTEXPR_WORDS = frozenset({"constexpr", "consteval"})


@dataclass(frozen=True)
class DeviceCode:
    """A source without its host part.

    `host_functions` gives the line (from 1) of every host function that was taken out; `launched_templates` are the kernel
    templates that the host part launches, spelled with their arguments ("scale<float>").
    """

    text: str
    host_functions: dict[str, int]
    launched_templates: tuple[str, ...]


def device_code(text: str, *, headers: Iterable[str] = ()) -> DeviceCode:
    """The device part of a source; `headers` are the texts of its own headers, whose macros and mentions count too.

    A source without host functions comes back as it was, and so does one whose brackets do not pair up: the compiler says why.
    """
    unchanged = DeviceCode(text, {}, ())
    try:
        declarations = parse_declarations(text)
    except ParseError:
        return unchanged
    header_tokens = [token for header in headers for token in tokenize(header)]
    macros = macro_words([*header_tokens, *tokenize(text)])
    device_words = words_meaning(DEVICE_WORDS, macros)
    host_definitions = [d for d in declarations if _is_host_definition(d, device_words)]
    has_host_members = any(_host_members(d, device_words) for d in declarations)
    if not host_definitions and not has_host_members:
        return unchanged
    launches = _launched_templates(declarations, device_words)
    mentioned = {token.text for token in header_tokens if token.kind is TokenKind.IDENTIFIER}
    mentioned |= {token.text for launch in launches for token in tokenize(launch) if token.kind is TokenKind.IDENTIFIER}
    kept = _reachable(declarations, device_words, macros, mentioned)
    edits = _Edits(text)
    host_functions: dict[str, int] = {}
    for index, declaration in enumerate(declarations):
        if index in kept:
            edits.keep(declaration, device_words)
        else:
            edits.blank(declaration.start, declaration.end)
            if declaration.kind is DeclarationKind.FUNCTION and declaration.body is not None:
                host_functions[declaration.name] = text.count("\n", 0, declaration.start) + 1
    return DeviceCode(edits.result(), host_functions, launches)


def _is_device(declaration: Declaration, device_words: frozenset[str]) -> bool:
    """Does it carry an execution or memory space, itself or, for a class, in one of its members?"""
    words = declaration.words() if declaration.kind is DeclarationKind.CLASS else declaration.head_words()
    return bool(words & device_words)


def _is_host_definition(declaration: Declaration, device_words: frozenset[str]) -> bool:
    return declaration.kind is DeclarationKind.FUNCTION and declaration.body is not None and not declaration.head_words() & device_words


def _host_members(declaration: Declaration, device_words: frozenset[str]) -> list[Declaration]:
    """Member functions without an execution space; `= default` and `= delete` have none of their own and may stay."""
    if declaration.kind is not DeclarationKind.CLASS or declaration.body is None:
        return []
    return [
        member
        for member in member_declarations(declaration)
        if member.kind is DeclarationKind.FUNCTION
        and not member.head_words() & device_words
        and not (member.body is None and member.head_words() & {"default", "delete"})
    ]


def _reachable(declarations: list[Declaration], device_words: frozenset[str], macros: dict[str, set[str]], mentioned: set[str]) -> set[int]:
    """Indices of the declarations to keep: device code, and what it mentions, directly or through others or macros."""
    kept: set[int] = set()
    words = set(mentioned)
    pending = {i for i, d in enumerate(declarations) if _is_device(d, device_words) and d.kind is not DeclarationKind.CLASS}
    while pending:
        kept |= pending
        for index in pending:
            words |= _words_that_stay(declarations[index], device_words)
        words = _through_macros(words, macros)
        pending = {i for i, d in enumerate(declarations) if i not in kept and _is_usable_on_device(d) and _declares(d, words)}
    kept |= {i for i, d in enumerate(declarations) if d.kind is DeclarationKind.OTHER}
    gone = {d.name for i, d in enumerate(declarations) if i not in kept and d.name}
    return kept | {i for i, d in enumerate(declarations) if d.kind is DeclarationKind.ASSERTION and not d.words() & gone}


def _words_that_stay(declaration: Declaration, device_words: frozenset[str]) -> set[str]:
    blanked = {id(token) for member in _host_members(declaration, device_words) for token in member.tokens}
    return {token.text for token in declaration.tokens if token.kind is TokenKind.IDENTIFIER and id(token) not in blanked}


def _through_macros(words: set[str], macros: dict[str, set[str]]) -> set[str]:
    pending = list(words)
    while pending:
        fresh = macros.get(pending.pop(), set()) - words
        words |= fresh
        pending.extend(fresh)
    return words


def _is_usable_on_device(declaration: Declaration) -> bool:
    """Can device code use it at all, given that it carries no space of its own?"""
    words = declaration.head_words()
    if declaration.kind is DeclarationKind.FUNCTION:
        return bool(words & _CONSTEXPR_WORDS)
    if declaration.kind is DeclarationKind.VARIABLE:
        return bool(words & _CONSTANT_WORDS)
    return True


def _declares(declaration: Declaration, words: set[str]) -> bool:
    if declaration.kind is DeclarationKind.ENUM:
        return bool(declaration.words() & words)
    if declaration.kind is DeclarationKind.VARIABLE:
        pairs = pairwise(declaration.tokens)
        return any(token.text in words and after.text in ("=", "[", ",", ";", "{") for token, after in pairs)
    return declaration.name in words


class _Edits:
    """Changes to a text that leave every line where it is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._blanks: list[tuple[int, int]] = []
        self._insertions: list[tuple[int, str]] = []

    def keep(self, declaration: Declaration, device_words: frozenset[str]) -> None:
        """Keep a declaration, but take the host-only members out of a class and give a constexpr function its space."""
        if _is_host_definition(declaration, device_words):
            self._give_space(declaration)
        for member in _host_members(declaration, device_words):
            if member.head_words() & _CONSTEXPR_WORDS:
                self._give_space(member)
            else:
                self.blank(member.start, member.end)

    def blank(self, start: int, end: int) -> None:
        self._blanks.append((start, end))

    def _give_space(self, declaration: Declaration) -> None:
        """nvcc lets device code call constexpr functions in constant expressions; this compiler wants them marked."""
        word = next(token for token in declaration.head if token.text in _CONSTEXPR_WORDS)
        self._insertions.append((word.start, "__host__ __device__ "))

    def result(self) -> str:
        directives = [(token.start, token.end) for token in tokenize(self._text) if token.kind is TokenKind.DIRECTIVE]
        characters = list(self._text)
        for start, end in self._blanks:
            for index in range(start, end):
                if characters[index] not in "\r\n":
                    characters[index] = " "
        for start, end in directives:
            characters[start:end] = self._text[start:end]
        for start, addition in self._insertions:
            characters[start] = addition + characters[start]
        return "".join(characters)


_TYPE_PARAMETER = re.compile(r"\b(?:typename|class|auto)\s+(?:\.\.\.\s*)?(\w+)")


def _launched_templates(declarations: list[Declaration], device_words: frozenset[str]) -> tuple[str, ...]:
    """Kernel templates launched as `name<arguments><<<…>>>` with arguments that mean something outside the launching function."""
    scopes = {
        d.name: d.scope
        for d in declarations
        if d.kind is DeclarationKind.FUNCTION and d.tokens[0].text == "template" and _is_device(d, device_words)
    }
    found: dict[str, None] = {}
    for declaration in declarations:
        own_parameters = set(_TYPE_PARAMETER.findall(" ".join(token.text for token in declaration.head)))
        tokens = declaration.tokens
        for index, token in enumerate(tokens[:-1]):
            if token.text not in scopes or tokens[index + 1].text != "<":
                continue
            end = closing_angle(tokens, index + 1)
            if end is None or end + 1 >= len(tokens) or tokens[end + 1].text != "<<<":
                continue
            arguments = [argument.text for argument in tokens[index + 1 : end + 1]]
            if not own_parameters & set(arguments):
                found["::".join((*scopes[token.text], token.text)) + _spelled(arguments)] = None
    return tuple(found)


def _spelled(words: list[str]) -> str:
    text = ""
    for word in words:
        between_words = bool(text) and (text[-1].isalnum() or text[-1] == "_") and (word[0].isalnum() or word[0] == "_")
        text += (" " if between_words else "") + word + (" " if word == "," else "")
    return text
