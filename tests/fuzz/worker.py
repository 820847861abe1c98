"""A process that runs fuzz cases one after the other: seeds come in, one a line; what became of each goes out, as JSON."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time

from .mutate import make_case
from .run_case import Verdict, run_case


def main() -> None:
    # kernels print too: what they print must not get among the answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    faulthandler.enable()
    for line in sys.stdin:
        seed = int(line)
        started = time.perf_counter()
        failure, detail = "", ""
        try:
            ended = run_case(make_case(seed))
        except Verdict as verdict:
            ended, failure, detail = "failure", verdict.kind, verdict.detail
        seconds = round(time.perf_counter() - started, 3)
        print(json.dumps({"seed": seed, "ended": ended, "failure": failure, "detail": detail, "seconds": seconds}), file=answers, flush=True)


if __name__ == "__main__":
    main()
