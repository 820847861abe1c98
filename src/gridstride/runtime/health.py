"""Whether a device still does anything: the fault that stopped it, which every call tells of once one that waits has."""

from __future__ import annotations

from gridstride.errors import GridstrideError


class Health:
    """The fault that stopped a device, and whether a call that waits has told of it; and what a function of the host has raised."""

    def __init__(self) -> None:
        self.failure: GridstrideError | None = None
        self.surfaced = False
        self.pending: GridstrideError | None = None

    def surface(self) -> None:
        """A call that waits: raise the fault, now and whenever it is asked again; or, once, what a function of the host has raised."""
        if self.pending is not None:
            pending, self.pending = self.pending, None
            raise pending
        if self.failure is not None:
            self.surfaced = True
            raise self.failure.with_traceback(None)

    def raised(self, error: GridstrideError) -> None:
        """A function of the host has raised; the first of several is told."""
        if self.pending is None:
            self.pending = error

    @property
    def unobserved(self) -> str | None:
        """What no call has told of yet."""
        if self.failure is not None and not self.surfaced:
            return f"a kernel was stopped, and the program never waited for it: {self.failure}"
        return f"the program never waited for a stream: {self.pending}" if self.pending is not None else None
