"""`gridstride run script.py`, and what `check` and `profile` do with a script: processes of their own, for each changes its process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEAD = "import numpy as np\nfrom numba import cuda\n"
BEYOND = (
    HEAD
    + """
@cuda.jit
def beyond(x):
    i = cuda.grid(1)
    x[i + 90] = 0

x = cuda.to_device(np.zeros(100))
beyond[1, 32](x)
"""
)
SCALE = (
    HEAD
    + """
@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by

x = cuda.to_device(np.arange(100.0))
scale[1, 128](x, 3.0)
scale[2, 64](x, 2.0)
print(x.copy_to_host()[99])
"""
)


def gridstride(*arguments: str, cwd: Path, module: str = "gridstride.cli", **environment: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if name not in ("CUDA_LAUNCH_BLOCKING", "GRIDSTRIDE_DEVICE")}
    quiet = {"NUMBA_DISABLE_PERFORMANCE_WARNINGS": "1", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=given | quiet | environment,
        timeout=200,
    )


def run(folder: Path, text: str, *arguments: str, command: str = "run", **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(text)
    return gridstride(command, "script.py", "--device", "sim", *arguments, cwd=folder, **environment)


KEY_ERROR = """\
Traceback (most recent call last):
  File "script.py", line 4, in <module>
    f()
  File "script.py", line 2, in f
    return {}['key']
           ~~^^^^^^^
KeyError: 'key'
"""
BEYOND_TOLD = (
    "gridstride: a kernel was stopped, and the program never waited for it: kernel `beyond`: writes 8 bytes at `x`[100], outside its 100 elements "
    "of 8 bytes (script.py:7, block (0,0,0), thread (10,0,0))"
)


# ---- as Python runs a script -----------------------------------------------------------------------------------------


def test_what_a_script_sees(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("value = 42\n")
    done = run(
        tmp_path,
        "import sys, beside, pickle, __main__\n"
        "class Own: pass\n"
        "assert __name__ == '__main__' and __main__.Own is Own and type(pickle.loads(pickle.dumps(Own()))) is Own\n"
        "print(sys.argv, beside.value, __file__)\n",
        "--",
        "one",
        "--two",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"['script.py', 'one', '--two'] 42 {tmp_path / 'script.py'}\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit('enough')", 1, "enough\n"),
        (
            "def f():\n    return {}['key']\n\nf()\n",
            1,
            KEY_ERROR,
        ),
        ("def f(:\n", 1, '  File "script.py", line 1\n    def f(:\n          ^\nSyntaxError: invalid syntax\n'),
    ],
    ids=["status", "nothing", "text", "exception", "syntax"],
)
def test_how_a_script_ends(tmp_path: Path, text: str, status: int, told: str) -> None:
    done = run(tmp_path, text)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", told)


def test_a_script_of_gridstride_itself(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "import gridstride as gs\n"
        "device = gs.device()\n"
        'kernel = device.compile(\'extern "C" __global__ void one(int* x) { *x = 1; }\')["one"]\n'
        "x = device.zeros(1, 'i4')\n"
        "kernel[1, 1](x)\n"
        "print(device, x.numpy())\n",
        "--device",
        "sim:a100",
        "--checks",
        "all",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "sim:a100 [1]\n"
    assert "no findings in 1 launch, 1 threads" in done.stderr


def test_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "gridstride.cli", "run", "script.py", "--device", "sim", "--json", "out.json"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.endswith("KeyboardInterrupt\n")
    assert json.loads((tmp_path / "out.json").read_text())["cases"][0]["error"]["code"] == "interrupted"


# ---- what is found ---------------------------------------------------------------------------------------------------


def test_a_fault_that_the_script_never_waits_for(tmp_path: Path) -> None:
    done = run(tmp_path, BEYOND)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [BEYOND_TOLD]


def test_a_fault_that_the_script_meets(tmp_path: Path) -> None:
    done = run(tmp_path, BEYOND + "cuda.synchronize()\n", "--checks", "all", "--json", "out.json")
    assert done.returncode == 1
    assert 'File "script.py", line 11, in <module>\n    cuda.synchronize()' in done.stderr
    assert "gridstride/cli" not in done.stderr and "gridstride/numba_host/calls.py" not in done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS: kernel `beyond`: writes 8 bytes at `x`[100]" in done.stderr
    assert "error[GS101] out-of-bounds: writes 8 bytes at `x`[100]" in done.stderr
    assert "7 | x[i + 90] = 0" in done.stderr
    case = json.loads((tmp_path / "out.json").read_text())["cases"][0]
    assert (case["name"], case["kernel"], case["status"], case["error"]["code"]) == ("script.py", "", "error", "out-of-bounds")
    (finding,) = case["findings"]
    assert (finding["kernel"], finding["line"], finding["buffer"], finding["index"]) == ("beyond", 7, "x", 100)


def test_findings_fail_a_script_that_succeeds(tmp_path: Path) -> None:
    racing = (
        HEAD
        + """
@cuda.jit
def last(out):
    out[0] = cuda.threadIdx.x

out = cuda.device_array(1, np.int32)
last[1, 64](out)
out.copy_to_host()
print("done")
"""
    )
    plain = run(tmp_path, racing)
    assert (plain.returncode, plain.stdout) == (0, "done\n")
    checked = run(tmp_path, racing, command="check")
    assert checked.returncode == 1
    assert checked.stdout == "done\n"
    assert "race-global" in checked.stderr and "script.py:6" in checked.stderr
    suppressed = run(tmp_path, racing, "--write-baseline", "known.json", command="check")
    assert suppressed.returncode == 1
    again = run(tmp_path, racing, "--baseline", "known.json", command="check")
    assert again.returncode == 0, again.stderr


def test_orders_of_blocks(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
@cuda.jit
def order(out, ticket):
    out[cuda.atomic.add(ticket, 0, 1)] = cuda.blockIdx.x

out, ticket = cuda.to_device(np.zeros(4, np.int32)), cuda.to_device(np.zeros(1, np.int32))
order[4, 1](out, ticket)
cuda.synchronize()
"""
    )
    done = run(tmp_path, text, "--schedules", "3")
    assert "order-dependent" in done.stderr, done.stderr


def test_profiles(tmp_path: Path) -> None:
    done = run(tmp_path, SCALE, "--json", "out.json", "--trace", "trace.json", "--", "unused", command="profile")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "594.0\n"
    assert "scale: 2 launches; the one that takes longest:" in done.stderr
    assert "x[i] *= by" in done.stderr
    cases = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert [case["name"] for case in cases] == ["script.py", "scale"]
    assert cases[1]["receipt"]["launches"] == 2
    # 100 doubles are 25 sectors of 32 bytes, read and written
    assert cases[1]["counters"]["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 25
    assert cases[1]["counters"]["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 25
    names = [event.get("name") for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert names.count("kernel scale") == 2


def test_event_times_are_said_to_be_the_models(tmp_path: Path) -> None:
    text = HEAD + "a, b = cuda.event(), cuda.event()\na.record(); b.record(); b.synchronize()\nassert cuda.event_elapsed_time(a, b) >= 0\n"
    done = run(tmp_path, text, "--device", "sim:a100")
    assert done.returncode == 0
    assert done.stderr == "gridstride: times between events are those of the modelled A100 SXM 80GB, not of this machine\n"


WITHOUT_NUMBA = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "numba_cuda" else found(name, *rest)
sys.modules["numba_cuda"] = None
from gridstride.cli import main
main(["run", "script.py", "--device", "sim"])
"""


@pytest.mark.parametrize(
    ("text", "status", "ends"), [("print('fine')", 0, ""), ("import numba_cuda", 1, "need numba-cuda: pip install 'gridstride[python]'\n")]
)
def test_without_numba(tmp_path: Path, text: str, status: int, ends: str) -> None:
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert (done.returncode, done.stderr.endswith(ends)) == (status, True), done.stderr


# ---- other ways in ---------------------------------------------------------------------------------------------------


def test_the_module_runs_scripts_too(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCALE)
    done = gridstride("script.py", "--device", "sim", cwd=tmp_path, module="gridstride.numba")
    assert (done.returncode, done.stdout) == (0, "594.0\n"), done.stderr


def test_importing_is_enough(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import gridstride.numba\n" + SCALE + "print(gridstride.numba.current())\n")
    done = gridstride(cwd=tmp_path, module="own", GRIDSTRIDE_DEVICE="sim:l4")
    assert (done.returncode, done.stdout) == (0, "594.0\nsim:l4\n"), done.stderr


def test_the_device_is_chosen_before_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import gridstride.numba\n"
        "gridstride.numba.use('sim:l4')\n" + SCALE + "print(cuda.get_current_device().name)\n"
        "try:\n    gridstride.numba.use('sim:a100')\nexcept gridstride.UsageError as error:\n    print(error)\n"
    )
    done = gridstride(cwd=tmp_path, module="own", GRIDSTRIDE_DEVICE="sim")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "594.0\nNVIDIA L4 (simulated)\nnumba.cuda has been used on sim:l4 already; one process has one device for it\n"


def test_numbas_cache_holds_kernels(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
@cuda.jit(cache=True)
def scale(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

x = np.arange(5.0)
scale[1, 32](x)
print(x.tolist(), sum(scale.stats.cache_hits.values()))
cuda.to_device(x[:0])
"""
    )
    wanted = "[0.0, 2.0, 4.0, 6.0, 8.0]"
    (tmp_path / "script.py").write_text(text)  # once: numba looks at the file's time
    for hits in (0, 1):
        done = gridstride("check", "script.py", "--device", "sim", cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        assert (done.returncode, done.stdout) == (0, f"{wanted} {hits}\n"), done.stderr


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (
            ("run", "program.cu"),
            3,
            "program.cu is a CUDA C++ program, and only Python scripts can be run whole; its kernels run with `gridstride launch program.cu KERNEL …`",
        ),
        (
            ("run", "kernels.py:scale"),
            2,
            "kernels.py:scale names one kernel; `gridstride launch kernels.py:scale …` launches it, `gridstride run kernels.py` runs the script",
        ),
        (("run", "kernels.ptx"), 2, "kernels.ptx is no Python script: its name must end in .py"),
        (("run", "missing.py"), 2, "missing.py does not exist"),
        (("run", "there.py", "--json", "-"), 2, "what the script prints goes to standard output; give --json the name of a file"),
        (("run", "there.py", "--device", "sim:none"), 2, "there is no device `none` in the table"),
        (("run", "there.py", "--schedules", "2", "--checks", "nothing"), 2, "nothing"),
        (
            ("check", "there.py", "--arg", "n=1"),
            2,
            "--arg is for launches of one kernel (with --grid and --block); there.py is run as a script",
        ),
        (("check", "kernels.ptx", "name", "more"), 2, "unexpected argument `more`: a launch takes SOURCE and KERNEL"),
    ],
)
def test_refusals(tmp_path: Path, arguments: tuple[str, ...], status: int, told: str) -> None:
    (tmp_path / "there.py").write_text("print('ran')\n")
    done = gridstride(*arguments, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("gridstride: ") and told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_numba_has_and_the_simulator_has_not(tmp_path: Path) -> None:
    done = run(tmp_path, HEAD + "cuda.external_stream(123456)\n")
    assert done.returncode == 3
    assert done.stderr.endswith("0x1e240 is no stream of the simulator: streams that another library made cannot be used with it\n")
