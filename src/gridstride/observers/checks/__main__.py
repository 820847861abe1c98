"""Writes the manual of the checks: `python -m gridstride.observers.checks > docs/checks.md`."""

import sys

from gridstride.observers.checks import manual

sys.stdout.write(manual())
