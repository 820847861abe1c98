"""Kernels of half-precision instructions, whose counters an H200 gave (`half_counts_h200.json`).

usage, on a machine with a GPU, Nsight Compute and CuPy:  python3 half_forms.py > half_counts_h200.json
"""

import csv
import io
import json
import subprocess
import sys

TYPES = {"f16": "h", "f16x2": "r", "bf16": "h", "bf16x2": "r"}  # PTX type → kind of register
NAMES = ("hadd", "hmul", "hfma")
THREADS = 64


def forms() -> dict[str, tuple[str, str]]:
    """Kernel name → (its instructions, kind of register): %h or %r 2, 3 and 4 are loaded, 1 is stored."""
    found = {}
    for kind, r in TYPES.items():
        for op in ("add", "sub", "mul") if kind == "f16" else ("add", "mul"):
            found[f"{op}_{kind}"] = (f"{op}.rn.{kind} %{r}1, %{r}2, %{r}3;", r)
        found[f"fma_{kind}"] = (f"fma.rn.{kind} %{r}1, %{r}2, %{r}3, %{r}4;", r)
        for op in ("add", "mul"):
            one = f"{op}.rn.{kind}"
            found[f"chain_{op}_{kind}"] = (f"{one} %{r}1, %{r}2, %{r}3;" + f"{one} %{r}1, %{r}1, %{r}3;" * 7, r)
            beside = "".join(f"{one} %{r}{5 + k}, %{r}{2 + k % 3}, %{r}{2 + (k + 1) % 3};" for k in range(3))
            found[f"beside_{op}_{kind}"] = (f"{beside} {one} %{r}1, %{r}5, %{r}6; {one} %{r}1, %{r}1, %{r}7;", r)
            fused = f"fma.rn.{kind} %{r}5, %{r}2, %{r}3, %{r}4; {one} %{r}6, %{r}2, %{r}3; fma.rn.{kind} %{r}1, %{r}5, %{r}6, %{r}4;"
            found[f"fused_{op}_{kind}"] = (fused, r)
    return found


def ptx() -> str:
    text = ".version 8.8\n.target sm_90\n.address_size 64\n"
    for name, (instructions, r) in forms().items():
        bits = {"h": 16, "r": 32}[r]
        loads = "".join(f"ld.global.b{bits} %{r}{k}, [%a+{1024 * k}];\n" for k in (2, 3, 4))
        text += (
            f".visible .entry {name}(.param .u64 p)\n{{\n.reg .b16 %h<9>; .reg .b32 %r<9>, %l; .reg .b64 %a, %o;\n"
            f"ld.param.u64 %a, [p];\nmov.u32 %l, %tid.x;\nmul.wide.u32 %o, %l, {bits // 8};\nadd.u64 %a, %a, %o;\n"
            f"{loads}{instructions}\nst.global.b{bits} [%a], %{r}1;\nret;\n}}\n"
        )
    return text


def launch_all() -> None:
    import cupy
    from cupy.cuda import function

    module = function.Module()
    module.load(ptx().encode())
    memory = cupy.ones(8192, cupy.uint8)
    for name in forms():
        module.get_function(name)((1,), (THREADS,), (memory,))
    cupy.cuda.Device().synchronize()


def measure() -> dict[str, dict[str, int]]:
    metrics = {name: f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum" for name in NAMES}
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(metrics.values()), sys.executable, __file__, "launch"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith('"ID"'))
    rows = [row for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))) if row["Kernel Name"] in forms()]
    return {row["Kernel Name"]: {name: int(row[metric]) for name, metric in metrics.items()} for row in rows}


if __name__ == "__main__":
    if sys.argv[1:] == ["launch"]:
        launch_all()
    else:
        print(json.dumps(measure(), indent=1))
