"""PTX tokens to a `Module`: directives, variables and function headers. Function bodies: `body.py`."""

from __future__ import annotations

import math
import struct

from gridstride.errors import ParseError
from gridstride.isa.types import TYPES, ScalarType
from gridstride.ptx.body import BodyParser
from gridstride.ptx.lexer import Token, TokenStream, parse_float, parse_integer, plain_name
from gridstride.ptx.nodes import Function, Module, Relocation, Variable

_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".global", ".const", ".shared", ".local", ".param", ".reg", ".tex", ".sreg"}
_MAX_ALIGN = 1 << 16
_MAX_BYTES = 1 << 40  # of a variable: more than any device has
_MAX_DIMENSIONS = 16
_OPAQUE = {".texref": 8, ".samplerref": 8, ".surfref": 8}
_PERFORMANCE = {
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".noreturn", ".explicitcluster",
    ".reqnctapercluster", ".maxclusterrank", ".blocksareclusters", ".abi_preserve", ".abi_preserve_control", ".local_maxnreg",
}  # fmt: skip


def parse(text: str) -> Module:
    """Parse PTX text of versions 1.x to 9.x. Raises ParseError with the line and a caret."""
    return _ModuleParser(text).run()


class _ModuleParser:
    def __init__(self, text: str) -> None:
        self.stream = TokenStream(text)
        self.module = Module((0, 0), "", 64, {}, {}, {}, {}, text)

    def run(self) -> Module:
        s, module = self.stream, self.module
        if s.peek() != ".version":
            s.fail("PTX begins with `.version`")
        while s.peek().kind != "end":
            token = s.next()
            if token == ".version":
                number = s.next()
                major, _, minor = number.partition(".")
                if not (major.isdecimal() and minor.isdecimal()):
                    s.fail(f"`{number}` is no version; write two numbers with a dot", number)
                module.version = (int(major), int(minor))
            elif token == ".target":
                module.target = s.name()
                while s.accept(","):
                    s.name()
            elif token == ".address_size":
                module.address_size = s.integer()
                if module.address_size != 64:
                    s.fail("only 64-bit addresses are supported (.address_size 64)")
            elif token == ".file":
                self._file()
            elif token == ".section":
                self._skip_section()
            elif token == ".alias":
                alias = s.name()
                s.expect(",")
                module.aliases[alias] = s.name()
                s.expect(";")
            elif token == ".pragma":
                while s.next() != ";":
                    pass
            elif token == ";":
                continue
            elif token in _LINKAGE or token in _SPACES or token in (".entry", ".func"):
                self._declaration(token)
            elif token.startswith("@@"):
                continue
            else:
                s.fail(f"`{token}` cannot stand here", token)
        return module

    def _file(self) -> None:
        s = self.stream
        number = s.integer()
        self.module.files[number] = plain_name(s.next().strip('"'))
        while s.accept(","):
            s.next()

    def _skip_section(self) -> None:
        while self.stream.next() != "{":
            pass
        depth = 1
        while depth:
            token = self.stream.next()
            depth += (token == "{") - (token == "}")

    def _declaration(self, first: Token) -> None:
        s, token, extern = self.stream, first, False
        while token in _LINKAGE:
            extern = extern or token == ".extern"
            token = s.next()
        if token in (".entry", ".func"):
            self._function(token == ".entry", s.line_of(token))
            return
        if token not in _SPACES:
            s.fail(f"expected a state space, `.entry` or `.func`, found `{token}`", token)
        for variable in self.variables(token[1:]):
            variable.extern = extern
            if variable.size is None and variable.space != "shared" and not extern:
                raise ParseError(f"PTX line {variable.line}: `{variable.name}` has no size")
            earlier = self.module.variables.get(variable.name)
            if earlier is None or earlier.extern:
                self.module.variables[variable.name] = variable

    # ---- variables -------------------------------------------------------------------------------------------

    def variables(self, space: str) -> list[Variable]:
        """The declarators after a state space, up to and with the semicolon."""
        s = self.stream
        kind, align, vector, managed, _ = self._type_of_declaration()
        declared = []
        while True:
            variable = self._declarator(space, kind, align, vector)
            variable.managed = managed
            declared.append(variable)
            if not s.accept(","):
                break
        s.expect(";")
        return declared

    def _type_of_declaration(self) -> tuple[ScalarType, int | None, int, bool, bool]:
        s = self.stream
        kind, align, vector, managed, pointer = None, None, 1, False, False
        while kind is None or s.peek().kind == "directive":
            token = s.next()
            word = token[1:]
            if token == ".align":
                align = s.integer()
                if align < 1 or align & (align - 1) or align > _MAX_ALIGN:
                    s.fail(f"{align} is no alignment: a power of two is, up to {_MAX_ALIGN:,}")
            elif token in (".v2", ".v4", ".v8"):
                vector = int(word[1])
            elif token == ".attribute":
                s.expect("(")
                managed = s.next() == ".managed"
                while not s.accept(")"):
                    s.next()
            elif token == ".ptr":
                pointer = True
                while s.peek() in (".global", ".shared", ".const", ".local", ".param", ".generic"):
                    s.next()
                if s.accept(".align"):  # of what is pointed to, not of the pointer (PTX ISA 7.1.7.2)
                    s.integer()
            elif word in TYPES:
                kind = TYPES[word]
            elif token in _OPAQUE:
                kind = TYPES["b64"]
            else:
                s.fail(f"`{token}` is not a type", token)
        return kind, align, vector, managed, pointer

    def _declarator(self, space: str, kind: ScalarType, align: int | None, vector: int) -> Variable:
        s = self.stream
        line = s.line
        name = s.name()
        if kind.kind == "p" and space != "reg":
            s.fail("predicates cannot be in memory", name)
        element = kind.bytes * vector
        size: int | None = element
        while s.accept("["):
            if s.accept("]"):
                size = None
                continue
            extent = s.integer()
            size = None if size is None else size * extent
            if extent < 0 or (size or 0) > _MAX_BYTES:
                s.fail(f"`{name}` cannot have this size", name)
            s.expect("]")
        variable = Variable(name, space, kind, align or element, size, line)
        if s.accept("="):
            if space not in ("global", "const"):
                s.fail(f"a .{space} variable cannot be initialised")
            self._initialiser(variable)
        return variable

    def _initialiser(self, variable: Variable) -> None:
        values = bytearray()
        relocations: list[Relocation] = []
        if self.stream.accept("{"):
            self._initialiser_list(variable.type, values, relocations)
        else:
            self._initialiser_value(variable.type, values, relocations)
        if variable.size is None:
            variable.size = len(values)
        if len(values) > variable.size:
            self.stream.fail(f"the initialiser of `{variable.name}` is longer than the variable")
        variable.initial = bytes(values)
        variable.relocations = tuple(relocations)

    def _initialiser_list(self, kind: ScalarType, values: bytearray, relocations: list[Relocation], depth: int = 1) -> None:
        s = self.stream
        if depth > _MAX_DIMENSIONS:
            s.fail("this initialiser is nested too deeply")
        while not s.accept("}"):
            if s.accept("{"):
                self._initialiser_list(kind, values, relocations, depth + 1)
            else:
                self._initialiser_value(kind, values, relocations)
            if not s.accept(","):
                s.expect("}")
                return

    def _initialiser_value(self, kind: ScalarType, values: bytearray, relocations: list[Relocation]) -> None:
        s = self.stream
        negative = s.accept("-")
        token = s.next()
        if token.kind == "float":
            bits, width = parse_float(token)
            real = struct.unpack("<f", struct.pack("<I", bits))[0] if width == 32 else struct.unpack("<d", struct.pack("<Q", bits))[0]
            real = -real if negative else real
            if kind.kind != "f":
                if kind.bits not in (32, 64):
                    s.fail(f"a floating-point constant is no .{kind.name}", token)
                values += (bits ^ (1 << (width - 1) if negative else 0)).to_bytes(width // 8, "little")[: kind.bytes].ljust(kind.bytes, b"\0")
            else:
                values += _packed_real(kind, real)
        elif token.kind == "int" and s.accept("("):
            mask = parse_integer(token)
            if mask == 0:
                s.fail("a mask without bits takes nothing of the address", token)
            self._relocation(kind, values, relocations, shift=(mask & -mask).bit_length() - 1)
            s.expect(")")
        elif token.kind == "int":
            number = -parse_integer(token) if negative else parse_integer(token)
            if kind.kind == "f":
                values += _packed_real(kind, float(number))
            else:
                values += (number & ((1 << kind.bits) - 1)).to_bytes(kind.bytes, "little")
        elif token.kind == "name":
            self._relocation(kind, values, relocations, token)
        else:
            s.fail(f"`{token}` is not a value", token)

    def _relocation(
        self, kind: ScalarType, values: bytearray, relocations: list[Relocation], token: str | None = None, shift: int = 0
    ) -> None:
        """`name`, `name+8`, `generic(name)`, `generic(name)+8`; `token` is what was read of it."""
        s, addend = self.stream, 0
        symbol = s.name() if token is None else token
        generic = symbol == "generic" and s.accept("(")
        if generic:
            symbol = s.name()
            s.expect(")")
        while s.peek() in ("+", "-"):
            sign = 1 if s.next() == "+" else -1
            addend += sign * s.integer()
        relocations.append(Relocation(len(values), str(symbol), addend, kind.bytes, shift, generic))
        values += bytes(kind.bytes)

    # ---- functions -------------------------------------------------------------------------------------------

    def parameters(self) -> list[Variable]:
        """A parenthesised list of formal parameters."""
        s = self.stream
        found: list[Variable] = []
        s.expect("(")
        while not s.accept(")"):
            space = s.next()
            if space not in (".param", ".reg"):
                s.fail(f"expected `.param`, found `{space}`", space)
            kind, align, vector, _, pointer = self._type_of_declaration()
            found.append(self._declarator(space[1:], kind, align, vector))
            found[-1].pointer = pointer
            if found[-1].size is None:
                s.fail(f"parameter `{found[-1].name}` has no size")
            if found[-1].name != "_" and any(other.name == found[-1].name for other in found[:-1]):
                s.fail(f"two parameters are called `{found[-1].name}`")
            s.accept(",")
        return found

    def _function(self, entry: bool, line: int) -> None:
        s = self.stream
        while s.peek() == ".attribute":
            s.next()
            while s.next() != ")":
                pass
        returns = self.parameters() if s.peek() == "(" else []
        name = str(s.name())
        parameters = self.parameters() if s.peek() == "(" else []
        function = Function(name, entry, line, parameters, returns)
        while s.peek() in _PERFORMANCE or s.peek() == ".pragma":
            directive = s.next()
            if directive == ".pragma":
                while s.next() != ";":
                    pass
                continue
            numbers = []
            while s.peek().kind == "int":
                numbers.append(s.integer())
                s.accept(",")
            if directive in (".maxntid", ".reqntid") and not 1 <= len(numbers) <= 3:
                s.fail(f"`{directive}` takes one to three numbers", directive)
            function.directives[directive[1:]] = tuple(numbers)
        if not s.accept(";"):
            s.expect("{")
            function.has_body = True
            BodyParser(self, function).run()
        earlier = self.module.functions.get(name)
        if earlier is None or not earlier.has_body:
            self.module.functions[name] = function
        elif function.has_body:
            raise ParseError(f"PTX line {line}: function `{name}` is defined twice (first on line {earlier.line})")


def _packed_real(kind: ScalarType, real: float) -> bytes:
    """The bytes of a number as f32 or f64; beyond the largest f32 lies infinity."""
    if kind.bits == 64:
        return struct.pack("<d", real)
    try:
        return struct.pack("<f", real)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, real))
