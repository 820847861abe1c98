"""PTX text to tokens (PTX ISA 4.1 to 4.5)."""

from __future__ import annotations

import bisect
import re
import struct
from typing import NoReturn

from gridstride.errors import ParseError

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)
  | (?P<unclosed>/\*)
  | (?P<float>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)
  | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<name>[A-Za-z_$%][\w$]*(?:\.\w+(?:::\w+)*)*)
  | (?P<directive>\.[A-Za-z_]\w*(?:::\w+)*)
  | (?P<string>"[^"\n]*")
  | (?P<punctuation>[\[\]{}()<>,;:=+\-|!@*/~&^?%])
""",
    re.VERBOSE | re.DOTALL,
)


class Token(str):
    """The text of one token, with its kind and its place."""

    __slots__ = ("kind", "start")
    kind: str
    start: int


class TokenStream:
    """A cursor over the tokens of one PTX text; its errors show the line and a caret."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._scan(text))
        self.position = 0
        self._line_starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def _scan(self, text: str) -> list[Token]:
        tokens, position, match = [], 0, _TOKEN.match
        while position < len(text):
            found = match(text, position)
            if found is None:
                self._fail_scanning(position, f"unexpected character {text[position]!r}")
            kind = found.lastgroup
            if kind != "skip":
                token = Token(found.group())
                token.kind, token.start = kind or "", position
                if kind == "unclosed":
                    self._fail_scanning(position, "this comment does not end")
                if kind == "int" and (token[0] == "0" or len(token) > 18):
                    self._require_integer(token)
                tokens.append(token)
            position = found.end()
        end = Token("")
        end.kind, end.start = "end", len(text)
        tokens.append(end)
        return tokens

    def _require_integer(self, token: Token) -> None:
        try:
            fits = parse_integer(token) < 1 << 64
        except ValueError:
            self._fail_scanning(token.start, "this is no number")
        if not fits:
            self._fail_scanning(token.start, "this integer does not fit 64 bits")

    def _fail_scanning(self, position: int, message: str) -> NoReturn:
        self._line_starts = [0, *(m.end() for m in re.finditer("\n", self.text))]
        self.fail_at(position, message)

    def line_of(self, token: Token) -> int:
        """The 1-based line of a token."""
        return bisect.bisect_right(self._line_starts, token.start)

    @property
    def line(self) -> int:
        return self.line_of(self.tokens[self.position])

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.tokens[self.position]
        if token.kind == "end":
            self.fail("the text ends in the middle of a statement")
        self.position += 1
        return token

    def accept(self, text: str) -> bool:
        if self.tokens[self.position] == text:
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        token = self.peek()
        if token != text:
            self.fail(f"expected `{text}`" + (f", found `{token}`" if token else ""))
        return self.next()

    def name(self) -> Token:
        token = self.peek()
        if token.kind != "name":
            self.fail(f"expected a name, found `{token}`")
        return self.next()

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.next()
        if token.kind != "int":
            self.fail(f"expected an integer, found `{token}`", token)
        value = parse_integer(token)
        return -value if negative else value

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        self.fail_at((token or self.peek()).start, message)

    def fail_at(self, offset: int, message: str) -> NoReturn:
        line = bisect.bisect_right(self._line_starts, offset)
        start = self._line_starts[line - 1]
        source = self.text[start:].split("\n", 1)[0].expandtabs(1)
        raise ParseError(f"PTX line {line}: {message}\n    {source}\n    {' ' * (offset - start)}^")


def parse_integer(token: str) -> int:
    text = token.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8)
    return int(text)


def parse_float(token: str) -> tuple[int, int]:
    """Bits and width of a floating-point constant."""
    if token[:2] in ("0f", "0F"):
        return int(token[2:], 16), 32  # noqa: FURB166 - no prefix of Python's
    if token[:2] in ("0d", "0D"):
        return int(token[2:], 16), 64  # noqa: FURB166
    return struct.unpack("<Q", struct.pack("<d", float(token)))[0], 64


def plain_name(written: str) -> str:
    """A file's name as it is: compilers write its bytes beyond ASCII as backslash and three octal digits."""
    plain = re.sub(rb"\\([0-3][0-7]{2})", lambda found: bytes([int(found[1], 8)]), written.encode())
    return plain.decode(errors="replace")
