"""docs/instructions.md is what the registry says."""

from pathlib import Path

from gridstride.isa.registry import lookup, operations
from gridstride.isa.table import table

PAGE = Path(__file__).parents[2] / "docs" / "instructions.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == table(), "run: python -m gridstride.isa.table > docs/instructions.md"


def test_every_opcode_has_a_row() -> None:
    rows = table().splitlines()
    for entry in operations():
        internal = entry.opcode == "barrier_result" or not entry.section[0].isdigit()
        assert internal or any(row.startswith(f"| `{entry.opcode}` |") for row in rows), entry.opcode


def test_a_row_says_what_a_form_takes() -> None:
    assert "| `add` | (rm&#124;rn&#124;rp&#124;rz) (ftz) (sat) | f32 | 9.7.3.3 |" in table()
    assert lookup("add.rz.ftz.sat.f32").operation.section == "9.7.3.3"
    assert "| `mma` | matrix instructions | 9.7.14.5 |" in table()
