"""The parameters of kernels as the source spells them: PTX keeps their sizes and order, not their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gridstride.errors import ParseError
from gridstride.frontends.cxx_declarations import (
    Declaration,
    DeclarationKind,
    macro_words,
    parameter_tokens,
    parse_declarations,
    words_meaning,
)
from gridstride.frontends.cxx_tokens import Token, TokenKind, closing, closing_angle, tokenize

_QUALIFIERS = frozenset({"__restrict__", "__restrict", "restrict", "__grid_constant__", "register"})
_TYPE_WORDS = frozenset(
    [
        "void",
        "bool",
        "char",
        "short",
        "int",
        "long",
        "float",
        "double",
        "signed",
        "unsigned",
        "const",
        "volatile",
        "auto",
        "struct",
        "class",
        "enum",
        "typename",
        "size_t",
    ]
)


@dataclass(frozen=True)
class Parameter:
    """One parameter: its name ("" where the source gives none) and its C++ type in one-blank spelling, without `__restrict__`."""

    name: str
    type: str


@dataclass(frozen=True)
class KernelSignature:
    """A kernel as the source declares it. `scope` is the namespaces around it; `variadic` says that a pack makes the count open."""

    name: str
    scope: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    is_template: bool
    variadic: bool

    @property
    def path(self) -> tuple[str, ...]:
        return (*self.scope, self.name)


def kernel_signatures(texts: Iterable[str]) -> tuple[KernelSignature, ...]:
    """Every `__global__` function declared in the texts (a source and its own headers), in order.

    Texts are not preprocessed; `__global__` is also seen through the texts' own macros. A text whose brackets do not pair up gives nothing.
    """
    return tuple(_signature(declaration) for declaration in _kernels(list(texts)))


def kernel_places(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Where each kernel of a text is declared (a place in the text), and its name after its namespaces."""
    return [(declaration.start, (*declaration.scope, declaration.name)) for declaration in _kernels([text])]


def _kernels(texts: list[str]) -> Iterator[Declaration]:
    global_words = words_meaning(frozenset({"__global__"}), macro_words(token for text in texts for token in tokenize(text)))
    for text in texts:
        try:
            declarations = parse_declarations(text)
        except ParseError:
            continue
        for declaration in declarations:
            if declaration.kind is DeclarationKind.FUNCTION and declaration.head_words() & global_words:
                yield declaration


def _signature(declaration: Declaration) -> KernelSignature:
    groups = _split_at_commas(parameter_tokens(declaration))
    alone = [token.text for token in groups[0]] if len(groups) == 1 else []
    if alone in ([], ["void"]):
        groups = groups if len(groups) > 1 else []
    return KernelSignature(
        name=declaration.name,
        scope=declaration.scope,
        parameters=tuple(_parameter(group) for group in groups),
        is_template=declaration.tokens[0].text == "template",
        variadic=any(token.text == "..." for group in groups for token in group),
    )


def _split_at_commas(tokens: list[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = [[]]
    index = 0
    while index < len(tokens):
        text = tokens[index].text
        end = index
        if text in ("(", "[", "{"):
            end = closing(tokens, index)
        elif text == "<":
            end = closing_angle(tokens, index) or index
        if text == ",":
            groups.append([])
        else:
            groups[-1].extend(tokens[index : end + 1])
        index = end + 1
    return groups


def _parameter(tokens: list[Token]) -> Parameter:
    plain = [token for token in _without_default(tokens) if token.text not in _QUALIFIERS]
    position = _name_position(plain)
    name = plain[position].text if position is not None else ""
    kept = [token.text for index, token in enumerate(plain) if index != position]
    return Parameter(name, _type_text(kept))


def _without_default(tokens: list[Token]) -> list[Token]:
    index = 0
    while index < len(tokens):
        text = tokens[index].text
        if text == "=":
            return tokens[:index]
        if text in ("(", "[", "{"):
            index = closing(tokens, index)
        elif text == "<":
            index = closing_angle(tokens, index) or index
        index += 1
    return tokens


def _name_position(tokens: list[Token]) -> int | None:
    """Where the declared name stands: in `void (*name)(int)` and `float (&name)[4]` inside the parentheses, else last before any `[`."""
    for index in range(len(tokens) - 2):
        if tokens[index].text == "(" and tokens[index + 1].text in ("*", "&"):
            inside = [i for i in range(index, closing(tokens, index)) if tokens[i].kind is TokenKind.IDENTIFIER]
            return inside[-1] if inside else None
    end = next((index for index, token in enumerate(tokens) if token.text == "["), len(tokens))
    last = end - 1
    if last < 1 or tokens[last].kind is not TokenKind.IDENTIFIER or tokens[last].text in _TYPE_WORDS:
        return None
    # `ns::Type` without a name ends with an identifier too, as does a lone `const T`.
    before = tokens[last - 1]
    only_qualifiers_before = all(token.text in ("const", "volatile", "struct", "typename", "enum", "class") for token in tokens[:last])
    return None if before.text == "::" or only_qualifiers_before else last


def _type_text(words: list[str]) -> str:
    text = ""
    for word in words:
        joined = text and (text[-1].isalnum() or text[-1] == "_") and (word[0].isalnum() or word[0] == "_")
        after_star = text.endswith(("*", "&", ">")) and (word[0].isalpha() or word[0] == "_")
        text += (" " if joined or after_star else "") + word + (" " if word == "," else "")
    return text
