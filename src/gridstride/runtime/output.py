"""Where a kernel's printf goes."""

from __future__ import annotations

import sys


def write_standard_output(text: str) -> None:
    """Write to whatever `sys.stdout` is at the moment (a notebook's, a test's capture), at once."""
    sys.stdout.write(text)
    sys.stdout.flush()
