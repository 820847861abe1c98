from __future__ import annotations

from pathlib import Path

from gridstride.frontends.diagnostics import compile_error, outside, parse_log

LOG = """lib/x.h(9): warning #47-D: incompatible redefinition of macro "A" (declared at line 2)
  #define A 2
          ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

a.cu(3): error: expression must have class type but it has type "int"
  \t\treturn a.y;
  \t\t         ^
          detected during instantiation of "T f(T) [with T=int]" at line 6

a.cu(7): catastrophic error: cannot open source file "x.h"
  #include "x.h"
                ^

2 errors detected in the compilation of "a.cu".
"""


def test_log_becomes_messages_with_place_line_and_caret() -> None:
    warning, error, missing = parse_log(LOG)
    assert (warning.severity, warning.file, warning.line, warning.column) == ("warning", "lib/x.h", 9, 9)
    assert (error.severity, error.line, error.column, error.source_line) == ("error", 3, 12, "\t\treturn a.y;")
    assert error.context == ('detected during instantiation of "T f(T) [with T=int]" at line 6',)
    assert missing.severity == "error"


def test_rendered_word_for_word() -> None:
    message = str(compile_error("a.cu", parse_log(LOG), LOG))
    assert message == (
        "a.cu does not compile (2 errors):\n"
        'a.cu:3:12: error: expression must have class type but it has type "int"\n'
        "    \t\treturn a.y;\n"
        "    \t\t         ^\n"
        '    detected during instantiation of "T f(T) [with T=int]" at line 6\n'
        'a.cu:7:15: error: cannot open source file "x.h"\n'
        '    #include "x.h"\n'
        "                  ^"
    )


def test_warnings_of_other_peoples_headers_are_left_out() -> None:
    assert [d.severity for d in outside(parse_log(LOG), [Path("lib")])] == ["error", "error"]
    assert len(outside(parse_log(LOG), [Path("elsewhere")])) == 3


def test_of_many_errors_the_first_are_shown() -> None:
    log = "\n".join(f'a.cu({line}): error: identifier "x{line}" is undefined' for line in range(1, 86))
    lines = str(compile_error("a.cu", parse_log(log), log)).splitlines()
    assert lines[0] == "a.cu does not compile (85 errors):"
    assert lines[10:] == ['a.cu:10: error: identifier "x10" is undefined', "and 75 more"]


def test_a_log_without_messages_is_shown_as_it_is() -> None:
    assert str(compile_error("a.cu", (), " the compiler fell over \n")) == "a.cu does not compile: the compiler fell over"
