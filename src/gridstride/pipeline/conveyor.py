"""Decoding, computing and encoding at once: a thread each, with a bounded number of images between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from gridstride.errors import GridstrideError

T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R")

AHEAD = 2
"""Images that are decoded before they are needed, and that wait to be encoded, at most."""

Compute = Callable[[Iterable[tuple[T, D]]], Generator[tuple[T, R | GridstrideError], None, None]]

_END = object()


def conveyed(
    items: Iterable[T], decode: Callable[[T], D], compute: Compute[T, D, R], encode: Callable[[T, R], None]
) -> Iterator[tuple[T, GridstrideError | None]]:
    """Each item when it is done: with None, or with the error that stopped it; the others go on.

    `decode` runs in a thread, `compute` in the caller's, which alone uses the device, `encode` in another. `compute` may give an error in place
    of a result. Errors that are no `GridstrideError`, and any that `compute` raises, end everything.
    """
    failed: deque[tuple[T, GridstrideError]] = deque()

    def attempts() -> Generator[tuple[T, D | GridstrideError], None, None]:
        for item in items:
            try:
                yield item, decode(item)
            except GridstrideError as error:
                yield item, error

    def decoded() -> Generator[tuple[T, D], None, None]:
        with closing(ahead(attempts())) as coming:
            for item, got in coming:
                if isinstance(got, GridstrideError):
                    failed.append((item, got))
                else:
                    yield item, got

    with closing(decoded()) as source, closing(behind(compute(source), encode)) as done:
        for outcome in done:
            yield outcome
            while failed:
                yield failed.popleft()
    while failed:
        yield failed.popleft()


def ahead(source: Generator[T, None, None], count: int = AHEAD) -> Generator[T, None, None]:
    """What `source` gives, made in a thread of its own, at most `count` before it is needed. The source is closed at the end."""
    executor = ThreadPoolExecutor(1, "decode")
    coming: deque[Future[T | object]] = deque()
    try:
        while True:
            while len(coming) < count:
                coming.append(executor.submit(next, source, _END))
            got = coming.popleft().result()
            if got is _END:
                return
            yield got  # type: ignore[misc]  # the end was looked for
    finally:  # also when the caller stops: what has not begun is given up, what has begun is ended
        executor.shutdown(cancel_futures=True)
        source.close()


def behind(
    results: Generator[tuple[T, R | GridstrideError], None, None], encode: Callable[[T, R], None], count: int = AHEAD
) -> Generator[tuple[T, GridstrideError | None], None, None]:
    """Each item when `encode`, in a thread of its own, has done with its result; at most `count` wait. Errors in place of results pass by it."""
    executor = ThreadPoolExecutor(1, "encode")
    writing: deque[tuple[T, Future[None]]] = deque()
    try:
        for item, result in results:
            if isinstance(result, GridstrideError):
                yield item, result
                continue
            writing.append((item, executor.submit(encode, item, result)))
            while len(writing) > count:
                yield _ended(*writing.popleft())
        while writing:
            yield _ended(*writing.popleft())
    finally:
        executor.shutdown(cancel_futures=True)
        results.close()


def _ended(item: T, future: Future[None]) -> tuple[T, GridstrideError | None]:
    try:
        future.result()
    except GridstrideError as error:
        return item, error
    return item, None
