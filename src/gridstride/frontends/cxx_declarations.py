"""The declarations of a C++ text, found by brackets and semicolons alone: which are functions, classes, variables, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from gridstride.errors import ParseError
from gridstride.frontends.cxx_tokens import Token, TokenKind, closing, closing_angle, tokenize, without_dead_branches

DEVICE_WORDS = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__"})
_CLASS_WORDS = frozenset({"struct", "class", "union", "enum"})
# Words that may stand before a parenthesis without naming what is declared.
ATTRIBUTE_CALLS = frozenset(
    {
        "__launch_bounds__",
        "__maxnreg__",
        "__cluster_dims__",
        "__block_size__",
        "__align__",
        "__builtin_align__",
        "alignas",
        "__attribute__",
        "__declspec",
        "decltype",
        "noexcept",
        "explicit",
        "requires",
    }
)


class DeclarationKind(Enum):
    """What a declaration declares."""

    FUNCTION = "function"
    CLASS = "class"
    ENUM = "enum"
    VARIABLE = "variable"
    ALIAS = "alias"
    ASSERTION = "assertion"
    OTHER = "other"


@dataclass(frozen=True)
class Declaration:
    """One declaration at namespace or class scope.

    `tokens` are all of it, `head` those before its body, `body` the tokens inside the braces (None when there are none);
    `scope` is the namespaces around it, outermost first.
    """

    kind: DeclarationKind
    name: str
    tokens: list[Token]
    head: list[Token]
    body: list[Token] | None
    scope: tuple[str, ...]

    @property
    def start(self) -> int:
        return self.tokens[0].start

    @property
    def end(self) -> int:
        return self.tokens[-1].end

    def head_words(self) -> set[str]:
        return identifiers(self.head)

    def words(self) -> set[str]:
        return identifiers(self.tokens)


def identifiers(tokens: Iterable[Token]) -> set[str]:
    """Every identifier among the tokens; string and directive tokens hold none."""
    return {token.text for token in tokens if token.kind is TokenKind.IDENTIFIER}


_DEFINE = re.compile(r"#\s*define\s+([A-Za-z_]\w*)(.*)", re.DOTALL)


def macro_words(tokens: Iterable[Token]) -> dict[str, set[str]]:
    """For every macro defined in the text, the identifiers of its replacement (of all its definitions together)."""
    macros: dict[str, set[str]] = {}
    for token in tokens:
        if token.kind is TokenKind.DIRECTIVE and (match := _DEFINE.match(token.text)):
            macros.setdefault(match.group(1), set()).update(identifiers(tokenize(match.group(2))))
    return macros


def words_meaning(target: frozenset[str], macros: dict[str, set[str]]) -> frozenset[str]:
    """The target words and every macro whose replacement holds one of them, through any number of macros."""
    known = set(target)
    while True:
        more = {name for name, words in macros.items() if name not in known and words & known}
        if not more:
            return frozenset(known)
        known |= more


def parse_declarations(text: str) -> list[Declaration]:
    """The declarations of a text at namespace scope. Raises ParseError when its brackets do not pair up on any reading."""
    tokens = tokenize(text)
    try:
        return list(_declarations(_code(without_dead_branches(tokens)), ()))
    except ParseError:
        return list(_declarations(_code(without_dead_branches(tokens, first_branch_only=True)), ()))


def member_declarations(declaration: Declaration) -> list[Declaration]:
    """The declarations inside a class."""
    return list(_declarations(_without_access_labels(declaration.body or []), declaration.scope))


def _code(tokens: list[Token]) -> list[Token]:
    return [token for token in tokens if token.kind is not TokenKind.DIRECTIVE]


def _without_access_labels(tokens: list[Token]) -> list[Token]:
    kept: list[Token] = []
    index = 0
    while index < len(tokens):
        label = tokens[index].text in ("public", "private", "protected")
        if label and index + 1 < len(tokens) and tokens[index + 1].text == ":":
            index += 2
            continue
        kept.append(tokens[index])
        index += 1
    return kept


def _declarations(tokens: list[Token], scope: tuple[str, ...]) -> Iterator[Declaration]:
    index = 0
    while index < len(tokens):
        if tokens[index].text == ";":
            index += 1
            continue
        opened = _scope_opening(tokens, index)
        if opened is not None:
            names, brace = opened
            end = closing(tokens, brace)
            yield from _declarations(tokens[brace + 1 : end], scope + names)
            index = end + 1
            continue
        end, body = _extent(tokens, index)
        yield _classified(tokens, index, end, body, scope)
        index = end + 1


def _scope_opening(tokens: list[Token], index: int) -> tuple[tuple[str, ...], int] | None:
    """Names and brace of `namespace a::b {` or `extern "C" {` that starts here."""
    if tokens[index].text == "inline" and index + 1 < len(tokens) and tokens[index + 1].text == "namespace":
        index += 1
    if tokens[index].text == "namespace":
        names: list[str] = []
        for brace in range(index + 1, len(tokens)):
            if tokens[brace].text == "{":
                return tuple(names), brace
            if tokens[brace].text in (";", "="):
                return None
            if tokens[brace].kind is TokenKind.IDENTIFIER:
                names.append(tokens[brace].text)
    elif tokens[index].text == "extern" and index + 2 < len(tokens) and tokens[index + 2].text == "{":
        return (), index + 2
    return None


def _extent(tokens: list[Token], start: int) -> tuple[int, tuple[int, int] | None]:
    """Index of the declaration's last token, and the braces of its body."""
    index = start
    body: tuple[int, int] | None = None
    if tokens[index].text == "template" and index + 1 < len(tokens) and tokens[index + 1].text == "<":
        index = (closing_angle(tokens, index + 1) or index) + 1
    assigned = False
    initialises_members = False
    while index < len(tokens):
        text = tokens[index].text
        if text == ";":
            return index, body
        if text in (")", "]", "}"):
            raise ParseError(f"a {text!r} closes nothing")
        if text in ("(", "["):
            index = closing(tokens, index)
            if index + 1 < len(tokens) and _is_macro_call(tokens, start, index):
                return index, None
        elif text == "operator":
            index = _end_of_operator_name(tokens, index)
        elif text == "=":
            assigned = True
        elif text == ":" and index > start and tokens[index - 1].text == ")":
            initialises_members = True
        elif text == "{":
            end = closing(tokens, index)
            is_function = not assigned and _parameter_list(tokens[start:index]) is not None
            if is_function and initialises_members and _is_member_initialiser(tokens, index, end):
                index = end + 1
                continue
            body = (index, end)
            if is_function:
                return end, body
            index = end
        index += 1
    return len(tokens) - 1, body


def _is_macro_call(tokens: list[Token], start: int, end: int) -> bool:
    """Is `NAME(…)` at the start, followed by another declaration, a macro that makes a declaration without a semicolon?"""
    following = tokens[end + 1]
    return (
        tokens[start].kind is TokenKind.IDENTIFIER
        and tokens[start].text not in ATTRIBUTE_CALLS
        and tokens[start + 1].text == "("
        and closing(tokens, start + 1) == end
        and following.kind is TokenKind.IDENTIFIER
        and following.text not in ("const", "noexcept", "override", "final", "volatile", "try", "requires")
    )


def _end_of_operator_name(tokens: list[Token], index: int) -> int:
    """Index of the last token of `operator+=`, `operator()`, `operator float*` and the like, whose first token is at `index`."""
    if index + 2 < len(tokens) and tokens[index + 1].text == "(" and tokens[index + 2].text == ")":
        return index + 2
    while index + 1 < len(tokens) and tokens[index + 1].text not in ("(", ";", "{", "}"):
        index += 1
    return index


def _is_member_initialiser(tokens: list[Token], opening: int, end: int) -> bool:
    names_a_member = tokens[opening - 1].kind is TokenKind.IDENTIFIER or tokens[opening - 1].text == ">"
    return names_a_member and end + 1 < len(tokens) and tokens[end + 1].text in (",", "{")


def _classified(tokens: list[Token], start: int, end: int, body: tuple[int, int] | None, scope: tuple[str, ...]) -> Declaration:
    whole = tokens[start : end + 1]
    head = tokens[start : body[0]] if body else whole
    inside = tokens[body[0] + 1 : body[1]] if body else None
    plain = without_template_prefix(head)
    first = plain[0].text if plain else ""
    kind, name = DeclarationKind.OTHER, ""
    parameters = _parameter_list(plain)
    class_word = next((token.text for token in plain if token.text in _CLASS_WORDS), None)
    if first == "using" and any(token.text == "=" for token in plain):
        kind, name = DeclarationKind.ALIAS, plain[1].text
    elif first == "typedef":
        kind, name = DeclarationKind.ALIAS, _alias_name(whole)
    elif first in ("using", "namespace") and not _is_whole_namespace(plain):
        kind, name = DeclarationKind.ALIAS, plain[1].text if first == "namespace" else _alias_name(plain)
    elif first == "static_assert":
        kind = DeclarationKind.ASSERTION
    elif first in ("using", "friend"):
        kind = DeclarationKind.OTHER
    elif class_word and inside is not None and parameters is None:
        kind = DeclarationKind.ENUM if class_word == "enum" else DeclarationKind.CLASS
        name = _class_name(plain)
    elif parameters is not None and _is_macro_call_alone(plain, parameters):
        kind, name = DeclarationKind.OTHER, first
    elif parameters is not None:
        kind, name = DeclarationKind.FUNCTION, _function_name(plain, parameters)
    elif class_word and inside is None and len(plain) <= 4:
        kind, name = DeclarationKind.CLASS, _class_name(plain)
    elif plain:
        kind, name = DeclarationKind.VARIABLE, _variable_name(plain)
    return Declaration(kind, name, whole, head, inside, scope)


def without_template_prefix(tokens: list[Token]) -> list[Token]:
    """The tokens after any `template <…>` at the front."""
    while len(tokens) > 1 and tokens[0].text == "template" and tokens[1].text == "<":
        end = closing_angle(tokens, 1)
        if end is None:
            break
        tokens = tokens[end + 1 :]
    return tokens


def _parameter_list(head: list[Token]) -> int | None:
    """Index of the parenthesis that opens a function's parameters: the first one after a name that is no attribute."""
    head_start = len(head) - len(without_template_prefix(head))
    index = head_start
    while index < len(head):
        text = head[index].text
        if text == "operator":
            index = _end_of_operator_name(head, index) + 1
            return index if index < len(head) and head[index].text == "(" else None
        if text == "(":
            before = head[index - 1] if index > head_start else None
            if before is not None and (before.kind is TokenKind.IDENTIFIER or before.text == ">") and before.text not in ATTRIBUTE_CALLS:
                return index
            index = closing(head, index)
        elif text == "[":
            index = closing(head, index)
        elif text == "=":
            return None
        index += 1
    return None


def parameter_tokens(declaration: Declaration) -> list[Token]:
    """What stands between the parentheses of a function's parameters."""
    plain = without_template_prefix(declaration.head)
    opening = _parameter_list(plain)
    return [] if opening is None else plain[opening + 1 : closing(plain, opening)]


def _is_macro_call_alone(plain: list[Token], opening: int) -> bool:
    return opening == 1 and plain[-1].text in (")", ";") and closing(plain, opening) >= len(plain) - 2


def _function_name(plain: list[Token], opening: int) -> str:
    """The last name before the parameters, without a specialisation's arguments: `scale` of `scale<float>(`."""
    words = [token.text for token in plain[:opening]]
    if "operator" in words:
        return "".join(words[words.index("operator") :])
    depth = 0
    for token in reversed(plain[:opening]):
        if token.text in (">", ">>>"):
            depth += len(token.text)
        elif token.text == "<":
            depth -= 1
        elif depth == 0:
            return token.text
    return ""


def _is_whole_namespace(plain: list[Token]) -> bool:
    """Is it `using namespace name;`? Namespaces inside std do not count: no stand-in header has them."""
    words = [token.text for token in plain]
    return words[:2] == ["using", "namespace"] and not (words[2:3] == ["std"] and "::" in words)


def _class_name(plain: list[Token]) -> str:
    index = next(i for i, token in enumerate(plain) if token.text in _CLASS_WORDS) + 1
    name = ""
    while index < len(plain):
        token = plain[index]
        if token.text in ATTRIBUTE_CALLS and index + 1 < len(plain) and plain[index + 1].text == "(":
            index = closing(plain, index + 1)
        elif token.text == "[":
            index = closing(plain, index)
        elif token.kind is TokenKind.IDENTIFIER and token.text not in _CLASS_WORDS and token.text != "final":
            name = token.text
        elif token.text in (":", "<", "{"):
            break
        index += 1
    return name


def _alias_name(whole: list[Token]) -> str:
    """The name a typedef gives: in `void (*name)(int)` the one in the parentheses, else the last one."""
    for opening, star, token in zip(whole, whole[1:], whole[2:], strict=False):
        if opening.text == "(" and star.text == "*" and token.kind is TokenKind.IDENTIFIER:
            return token.text
    names = [token.text for token in whole if token.kind is TokenKind.IDENTIFIER]
    return names[-1] if names else ""


def _variable_name(plain: list[Token]) -> str:
    name = ""
    index = 0
    while index < len(plain):
        token = plain[index]
        if token.text in ("=", "[", "{", ";", ","):
            break
        if token.text == "<":
            index = closing_angle(plain, index) or index
        elif token.text == "(":
            index = closing(plain, index)
        elif token.kind is TokenKind.IDENTIFIER:
            name = token.text
        index += 1
    return name
