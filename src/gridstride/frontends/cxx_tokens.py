"""The words of C++ text: enough to find declarations in it, without preprocessing it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from gridstride.errors import ParseError


class TokenKind(Enum):
    """What a stretch of C++ text is; comments and blanks are no tokens."""

    DIRECTIVE = "directive"
    STRING = "string"
    IDENTIFIER = "identifier"
    NUMBER = "number"
    PUNCTUATION = "punctuation"


@dataclass(frozen=True, slots=True)
class Token:
    """`start` and `end` are offsets into the text; a directive is one token up to its last continued line."""

    kind: TokenKind
    text: str
    start: int
    end: int


_PATTERN = re.compile(
    r"""(?P<skip>\s+|\\\r?\n|//(?:[^\n\\]|\\.|\\\r?\n)*|/\*.*?\*/)
      | (?P<string>(?:u8|[uUL])?R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)"
                  |(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
      | (?P<identifier>[A-Za-z_$][\w$]*)
      | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
      | (?P<punctuation><<<|>>>|::|->|&&|\|\||\.\.\.|.)""",
    re.VERBOSE | re.DOTALL,
)
# A directive ends with its line, but a block comment in it may hold line breaks.
_DIRECTIVE = re.compile(r"#(?:\\\r?\n|/\*.*?\*/|[^\n])*", re.DOTALL)
_KINDS = {
    "string": TokenKind.STRING,
    "identifier": TokenKind.IDENTIFIER,
    "number": TokenKind.NUMBER,
    "punctuation": TokenKind.PUNCTUATION,
}


def tokenize(text: str) -> list[Token]:
    """Split C++ text. What follows no rule of the language becomes one-character punctuation, so this never fails."""
    tokens: list[Token] = []
    position = 0
    line_is_blank_so_far = True
    while position < len(text):
        if text[position] == "#" and line_is_blank_so_far:
            match = _DIRECTIVE.match(text, position)
            assert match is not None
            tokens.append(Token(TokenKind.DIRECTIVE, match.group(), position, match.end()))
            position = match.end()
            continue
        match = _PATTERN.match(text, position)
        assert match is not None
        kind = _KINDS.get(match.lastgroup or "")
        if kind is not None:
            tokens.append(Token(kind, match.group(), position, match.end()))
            line_is_blank_so_far = False
        elif "\n" in match.group():
            line_is_blank_so_far = True
        position = match.end()
    return tokens


_CONDITIONAL = re.compile(r"#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)", re.DOTALL)


def without_dead_branches(tokens: list[Token], *, first_branch_only: bool = False) -> list[Token]:
    """Leave out what `#if 0` hides; with `first_branch_only` also every `#else` and `#elif` branch.

    Conditions are not evaluated. Taking one branch only makes braces balance in text that opens a brace in each of two branches.
    """
    kept: list[Token] = []
    # One entry per open conditional: is the branch at hand left out?
    hidden: list[bool] = []
    for token in tokens:
        match = _CONDITIONAL.match(token.text) if token.kind is TokenKind.DIRECTIVE else None
        if match is None:
            if not any(hidden):
                kept.append(token)
            continue
        word, condition = match.group(1), match.group(2).strip()
        if word in ("if", "ifdef", "ifndef"):
            hidden.append(word == "if" and condition == "0")
        elif word in ("else", "elif") and hidden:
            hidden[-1] = not hidden[-1] and first_branch_only
        elif word == "endif" and hidden:
            hidden.pop()
    return kept


_CLOSERS = {"(": ")", "[": "]", "{": "}"}


def closing(tokens: list[Token], opening: int) -> int:
    """Index of the bracket that closes the one at `opening`. Raises ParseError when brackets do not pair up."""
    stack: list[str] = []
    for index in range(opening, len(tokens)):
        token = tokens[index]
        if token.kind is not TokenKind.PUNCTUATION:
            continue
        if token.text in _CLOSERS:
            stack.append(_CLOSERS[token.text])
        elif token.text in ")]}":
            if not stack or stack.pop() != token.text:
                raise ParseError(f"a {token.text!r} closes nothing")
            if not stack:
                return index
    raise ParseError(f"a {tokens[opening].text!r} is never closed")


def closing_angle(tokens: list[Token], opening: int) -> int | None:
    """Index of the `>` (or the `>>>` that holds it) that closes the `<` at `opening`; None when it is a comparison after all."""
    depth = 0
    index = opening
    while index < len(tokens):
        text = tokens[index].text
        if text == "<":
            depth += 1
        elif text in (">", ">>>"):
            depth -= len(text)
            if depth <= 0:
                return index
        elif text in ("(", "[", "{"):
            index = closing(tokens, index)
        elif text in (";", "}", ")", "]", "&&", "||", "<<<"):
            return None
        index += 1
    return None
