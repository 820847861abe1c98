"""The contracts that stand in a source, for its kernels."""

from __future__ import annotations

from gridstride.errors import UsageError
from gridstride.frontends.annotations import Note, contract_notes
from gridstride.frontends.source import LoadedSource
from gridstride.runtime.contracts.contract import Contract
from gridstride.runtime.contracts.notation import parse_contract


class WrittenContracts:
    """Read when the source is loaded. Raises UsageError, with the line, for a contract that makes no sense."""

    def __init__(self, source: LoadedSource) -> None:
        texts = [(source.name, source.text)] if source.kind != "python" else []  # functions have theirs from a decorator
        if source.compiled is not None:
            texts += [(str(path), text) for path, text in source.compiled.files.items()]
        self._contracts = [(note, _parsed(note)) for note in contract_notes(texts, ptx=source.kind == "ptx")]

    def of(self, entry: str) -> Contract | None:
        """The contract of an entry; the last one that is about it, where patterns overlap."""
        return next((contract for note, contract in reversed(self._contracts) if note.is_about(entry)), None)


def _parsed(note: Note) -> Contract:
    try:
        return parse_contract(note.clauses)
    except UsageError as error:
        raise UsageError(f"{note.where}: {error}") from None
