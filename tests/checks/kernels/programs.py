"""Launches of programs.cu."""

import numpy as np

from .table import Case, ints, zeros

A = ints(512)
X = (ints(48 * 48) / 8).astype(np.float32)
ROWS = np.cumsum([0, 20, 57, 94, 31, 68, 105]).astype(np.int32)
COLUMNS = ints(375) % 50
KEPT = A[:300][A[:300] % 3 == 0]


def _softmax(rows: np.ndarray) -> np.ndarray:
    e = np.exp(rows.astype(np.float64) - rows.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float32)


def _sparse() -> np.ndarray:
    products = (X[:375] * X[:50][COLUMNS]).astype(np.float64)
    return np.add.reduceat(products, ROWS[:-1]).astype(np.float32)


SQUARE = X.reshape(48, 48)
SUMS = A[:192].reshape(6, 32).sum(axis=1)

CASES = [
    Case("softmax", 4, 128, (X, zeros(1200, np.float32), 300), {1: _softmax(X[:1200].reshape(4, 300)).ravel()}, kind="race-shared", near=1e-5),
    Case("compact", 1, 384, (A, zeros(384), zeros(1), 300), {1: np.append(KEPT, zeros(384 - len(KEPT)))}, kind="race-shared", also=("uninitialised", "race-global")),
    Case("spmv", 6, 128, (ROWS, COLUMNS, X, X, zeros(6, np.float32), 6), {4: _sparse()}, kind="uninitialised"),
    Case("lookback", 6, 32, (A, zeros(6), zeros(6, np.uint32), zeros(192)), {3: np.repeat(np.cumsum(SUMS) - SUMS, 32)}, kind="race-global"),
    Case("transpose_two", (3, 3), (16, 16), (X, X, zeros(2304, np.float32), 48), {2: (SQUARE.T * 2).ravel()}, kind="race-shared"),
    Case("gemm", (3, 3), (16, 16), (X, X, zeros(2304, np.float32), 48), {2: (SQUARE.astype(np.float64) @ SQUARE).astype(np.float32).ravel()}, kind="race-shared"),
]
