"""Decoding, computing and encoding at once: a thread each, with a bounded number of images between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from gridstride.errors import GridstrideError

T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R")

AHEAD = 2
"""Images that are decoded before they are needed, and that wait to be encoded, at most."""

Compute = Callable[[Iterable[tuple[T, D]]], Iterator[tuple[T, R]]]


def conveyed(
    items: Iterable[T], decode: Callable[[T], D], compute: Compute[T, D, R], encode: Callable[[T, R], None]
) -> Iterator[tuple[T, GridstrideError | None]]:
    """Each item when it is done: with None, or with the error that stopped it; the others go on.

    `decode` runs in a thread, `compute` in the caller's, which alone uses the device, `encode` in another. Errors that are no
    `GridstrideError`, and any error of `compute`, end everything.
    """
    return _Conveyor(decode, compute, encode).run(items)


class _Conveyor(Generic[T, D, R]):
    def __init__(self, decode: Callable[[T], D], compute: Compute[T, D, R], encode: Callable[[T, R], None]) -> None:
        self._decode, self._compute, self._encode = decode, compute, encode
        self._failed: deque[tuple[T, GridstrideError]] = deque()

    def run(self, items: Iterable[T]) -> Iterator[tuple[T, GridstrideError | None]]:
        decoder, encoder = ThreadPoolExecutor(1, "decode"), ThreadPoolExecutor(1, "encode")
        writing: deque[tuple[T, Future[None]]] = deque()
        try:
            for item, result in self._compute(self._decoded(iter(items), decoder)):
                writing.append((item, encoder.submit(self._encode, item, result)))
                while len(writing) > AHEAD:
                    yield self._ended(*writing.popleft())
                while self._failed:
                    yield self._failed.popleft()
            while writing:
                yield self._ended(*writing.popleft())
            while self._failed:
                yield self._failed.popleft()
        finally:  # also when the caller stops: what has not begun is given up, what has begun is ended
            for executor in (decoder, encoder):
                executor.shutdown(cancel_futures=True)

    def _decoded(self, items: Iterator[T], decoder: ThreadPoolExecutor) -> Iterator[tuple[T, D]]:
        """What could be decoded, with as many more on their way as may be."""
        reading: deque[tuple[T, Future[D]]] = deque()
        while True:
            while len(reading) < AHEAD:
                try:
                    item = next(items)
                except StopIteration:
                    break
                reading.append((item, decoder.submit(self._decode, item)))
            if not reading:
                return
            item, future = reading.popleft()
            try:
                decoded = future.result()
            except GridstrideError as error:
                self._failed.append((item, error))
                continue
            yield item, decoded

    @staticmethod
    def _ended(item: T, future: Future[None]) -> tuple[T, GridstrideError | None]:
        try:
            future.result()
        except GridstrideError as error:
            return item, error
        return item, None
