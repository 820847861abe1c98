"""Makes the listings in this folder anew: `python make.py`, with NVRTC and nvdisasm installed. Filling (NOP) is left out."""

from pathlib import Path

from gridstride.frontends.sass import disassemble
from gridstride.frontends.source import load_source

HERE = Path(__file__).parent

for arch in ("sm_80", "sm_90"):
    # As text, so that no path of this machine is in what is made.
    loaded = load_source((HERE / "accesses.cu").read_text(), name="accesses.cu", arch=arch)
    assert loaded.compiled is not None
    lines = [line for line in disassemble(loaded.compiled.cubin()).splitlines() if not line.endswith("NOP;")]
    here = str(Path.cwd()) + "/"
    (HERE / f"accesses.{arch}.ptx").write_text(loaded.ptx)
    (HERE / f"accesses.{arch}.sass").write_text("\n".join(lines).replace(here, "") + "\n")
