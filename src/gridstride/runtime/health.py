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

    @property
    def unobserved(self) -> str | None:
        """The fault that no call has told of yet."""
        return None if self.failure is None or self.surfaced else str(self.failure)
