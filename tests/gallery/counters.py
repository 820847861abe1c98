"""What each step must count at the size that its ladder shows: figures worked out by hand, from the problem and the launch, not from a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Counters = dict[str, float]

_WARPS = 31_250  # warps with a working lane: 1,000,000 ÷ 32, without a remainder
VECTOR_ADD = {
    # one lane of one warp: a request and a sector for each access
    "one-thread": {"load_requests": 2_000_000, "load_sectors": 2_000_000, "store_sectors": 1_000_000, "blocks": 1, "flops": 1_000_000},
    **{
        name: {"load_requests": 2 * _WARPS, "load_sectors": 2 * 4 * _WARPS, "store_requests": _WARPS, "store_sectors": 4 * _WARPS, "blocks": blocks}
        for name, blocks in (("one-block", 1), ("thread-each", 3907), ("grid-stride", 1056))
    },
    # 250,000 vectors: 7,812 warps and a half
    "float4": {"load_requests": 2 * 7813, "load_sectors": 2 * 125_000, "store_sectors": 125_000, "blocks": 977},
}


# n = 1,000,003: 31,250 warps and three lanes, 125,000 sectors and three elements of another
SAXPY = {
    "plain": {"load_requests": 2 * 31_251, "load_sectors": 2 * 125_001, "store_requests": 31_251, "store_sectors": 125_001, "blocks": 3907, "flops": 2_000_006},
    # Three lanes of one warp take four rounds and its others three. The compiler takes rounds by fours and what is left before them, so that
    # this warp runs 4 + 3 rounds where 4 would do: three requests more, and a sector each.
    "grid-stride": {"load_requests": 2 * 31_254, "load_sectors": 2 * 125_004, "store_requests": 31_254, "store_sectors": 125_004, "blocks": 1056},
    # 250,000 vectors, 7,812 warps and a half, and three elements
    "float4": {"load_requests": 2 * (7813 + 1), "load_sectors": 2 * 125_001, "store_requests": 7814, "store_sectors": 125_001, "blocks": 977},
    # elements 1 to 1,000,002: 31,250 warps of five sectors, and two elements in one
    "slice": {"load_requests": 2 * 31_251, "load_sectors": 2 * (31_250 * 5 + 1), "store_requests": 31_251, "store_sectors": 31_250 * 5 + 1},
    # three elements, 249,999 vectors from element 4 (7,812 warps of 17 sectors, and 15 vectors in 8), three elements
    "peeled": {"load_requests": 2 * (1 + 7813 + 1), "load_sectors": 2 * (1 + 7812 * 17 + 8 + 1), "store_sectors": 1 + 7812 * 17 + 8 + 1},
}

_WORK = 2048  # warps of 65,536 elements


def _access(sectors_per_load: int, arrays: int = 1) -> Counters:
    return {
        "load_requests": arrays * _WORK,
        "load_sectors": arrays * _WORK * sectors_per_load,
        "sectors_per_load": sectors_per_load,
        "store_requests": _WORK,
        "store_sectors": 4 * _WORK,
    }


ACCESS_PATTERNS = {
    "stride-1": _access(4),
    "stride-2": _access(8),
    "stride-4": _access(16),
    "stride-8": _access(32),
    "stride-32": _access(32),
    "offset-1": _access(5),
    "broadcast": _access(1),
    "vector-row": {"sectors_per_load": 16, "sectors_per_store": 16, "load_requests": 256 * 1024 / 128},
    "vector-column": {"sectors_per_load": 32, "sectors_per_store": 32, "load_requests": 256 * 1024 / 128},
    "aos": {**_access(32, 2), "load_efficiency": 1 / 8},
    "soa": {**_access(4, 2), "load_efficiency": 1},
    "pixels": {"load_requests": 3 * _WORK, "load_sectors": 3 * 3 * _WORK, "store_sectors": 4 * _WORK},
    # 192 words a block of 256 pixels: six warps of 128 bytes
    "pixels-staged": {"load_requests": 256 * 6, "load_sectors": 256 * 24, "load_efficiency": 1, "store_sectors": 4 * _WORK},
}

_TILES = 16 * 32  # of 32 x 32 in 512 x 1,024
_ROWS = 32 * _TILES  # of 32 elements, a warp's work


def _transpose(store_sectors: int, conflicts: int, barriers: int) -> Counters:
    return {
        "load_requests": _ROWS, "load_sectors": 4 * _ROWS, "store_requests": _ROWS, "store_sectors": store_sectors * _ROWS,
        "bank_conflicts": conflicts * _ROWS, "barriers": barriers * _TILES,
    }  # fmt: skip


TRANSPOSE = {
    "naive": {**_transpose(32, 0, 0), "shared_accesses": 0},
    "tile": {**_transpose(4, 31, 32), "shared_load_wavefronts": 32 * _ROWS, "shared_store_wavefronts": _ROWS},
    "padded": {**_transpose(4, 0, 32), "shared_load_wavefronts": _ROWS},
    "swizzled": {**_transpose(4, 0, 32), "shared_load_wavefronts": _ROWS},
    "rows": {**_transpose(4, 0, 8), "shared_load_wavefronts": _ROWS},
    # a request is 512 bytes, two half rows of 64 elements; shared vectors take four passes at least
    "vector": {
        "load_requests": _ROWS / 4, "load_sectors": 4 * _ROWS, "store_requests": _ROWS / 4, "store_sectors": 4 * _ROWS, "bank_conflicts": 0,
        "shared_accesses": _ROWS / 2, "shared_wavefronts": 2 * _ROWS, "barriers": 8 * _TILES / 4,
    },
}  # fmt: skip


def _banks(passes: int, fewest: int = 1) -> Counters:
    """A hundred warps read once each."""
    return {"shared_loads": 100, "shared_load_wavefronts": 100 * passes, "bank_conflicts": 100 * (passes - fewest)}


SHARED_PATTERNS = {
    "row": _banks(1),
    "column-32": _banks(32),
    "column-33": _banks(1),
    "column-64": _banks(32),
    "column-31": _banks(1),
    "one-word": _banks(1),
    "double": _banks(2, 2),
    "float4": _banks(4, 4),
    "float4-strided": _banks(8, 4),
    "bytes": _banks(1),
}

CONSTANT_MEMORY = {
    # 100,000 elements are 3,125 warps
    "broadcast": {"constant_loads": 3125, "constant_words": 3125, "constant_words_per_load": 1},
    "pairs": {"constant_loads": 3125, "constant_words": 16 * 3125, "constant_words_per_load": 16},
    "divergent": {"constant_loads": 3125, "constant_words": 32 * 3125, "constant_words_per_load": 32},
    "shared": {"constant_loads": 391, "constant_words": 32 * 391, "shared_load_wavefronts": 3125, "bank_conflicts": 0},
}

# Trees of 256 over 1,000,000: 3,907 blocks, then 16, then one: 31,250 warps of full loads, 122 and a part of one, a part of one
_TREE_BLOCKS = 3907 + 16 + 1
_TREE_LOADS = 31_250 + 123 + 1
# rounds of a tree over halves: 128 threads are 4 warps, 64 are 2, then one warp six times
_TREE_ROUNDS = 4 + 2 + 6
_FILLED = 1056 + 1  # blocks that fill the device, and one over their sums
_FILLED_LOADS = 31_250 + 33


def _strided_conflicts() -> int:
    """Passes too many of the three accesses of each round: the active lanes' words are 2 k apart, which leaves 32 / (2 k) banks or one."""
    total, k = 0, 1
    while k < 256:
        working = 128 // k
        warps, lanes = max(1, working // 32), min(32, working)
        banks = max(1, 32 // (2 * k))
        total += 3 * warps * (max(1, lanes // banks) - 1)
        k *= 2
    return total


REDUCTION = {
    "one-thread": {"launches": 1, "load_requests": 1_000_000, "load_sectors": 1_000_000, "flops": 1_000_000},
    "atomic": {"load_requests": 31_250, "load_sectors": 125_000, "global_atomics": 31_250, "atomic_operations": 1_000_000},
    # a barrier at the start and one in each of eight rounds, by eight warps
    "interleaved": {"launches": 3, "load_requests": _TREE_LOADS, "barriers": 9 * 8 * _TREE_BLOCKS, "bank_conflicts": 0, "global_atomics": 0},
    "strided": {"launches": 3, "load_requests": _TREE_LOADS, "barriers": 9 * 8 * _TREE_BLOCKS, "bank_conflicts": _strided_conflicts() * _TREE_BLOCKS},
    # eight warps store, a round reads two words and writes one, thread 0 reads the sum
    "sequential": {
        "load_requests": _TREE_LOADS, "barriers": 8 * 8 * _TREE_BLOCKS, "bank_conflicts": 0, "shared_wavefronts": (8 + 3 * (_TREE_ROUNDS - 1) + 3 + 1) * _TREE_BLOCKS,
    },
    "coarsened": {
        "launches": 2, "load_requests": _FILLED_LOADS, "barriers": 8 * 8 * _FILLED, "bank_conflicts": 0, "shared_wavefronts": (8 + 3 * _TREE_ROUNDS + 1) * _FILLED,
    },
    # five shuffles in eight warps, three in the first; eight stores and one load of the warps' sums
    "shuffle": {"launches": 2, "load_requests": _FILLED_LOADS, "barriers": 8 * _FILLED, "shuffles": 43 * _FILLED, "shared_wavefronts": 9 * _FILLED},
    # 245 blocks, 62,720 threads: vectors 0 to 61,839 are taken by fours (1,932 warps and a half), the others by threes (27 and a half)
    "full": {"launches": 1, "load_requests": 4 * 1933 + 3 * 28, "load_sectors": 125_000, "global_atomics": 245, "shuffles": 43 * 245, "barriers": 8 * 245},
    # sixteen loads a warp in 244 blocks, 576 elements in the last one, 245 sums
    "cub": {"launches": 2, "load_requests": 244 * 8 * 16 + 18 + 8, "load_sectors": 125_000 + 31, "global_atomics": 0},
    # another barrier before the sums are read, and the last block's own
    "deterministic": {"launches": 1, "load_requests": 4 * 1933 + 3 * 28 + 8, "load_sectors": 125_000 + 31, "global_atomics": 245, "shuffles": 43 * 246, "barriers": 8 * (2 * 245 + 1)},
    # a pair has two shuffles
    "kahan": {"launches": 2, "load_sectors": 125_000 + 62, "shuffles": 2 * 43 * 246, "barriers": 8 * 246},
}  # fmt: skip

ARG_MAX = {
    # Of each round the value and the place of two pairs are read and of one written; a pair is stored at first and one read at the end (of the last
    # block only the place).
    "tree": {"launches": 2, "barriers": 8 * 8 * 3908, "bank_conflicts": 0, "shared_wavefronts": (2 * 8 + 6 * _TREE_ROUNDS + 2) * 3908 - 1},
    # ten shuffles in each of eight warps, and ten in the first
    "shuffle": {"launches": 2, "load_requests": _FILLED_LOADS, "barriers": 8 * _FILLED, "shuffles": 90 * _FILLED},
    # a number of 64 bits is two shuffles
    "packed": {"launches": 1, "load_requests": 7813, "load_sectors": 125_000, "global_atomics": 977, "shuffles": 10 * 8 * 977},
}

DOT_PRODUCT = {
    "two-kernels": {"launches": 2, "load_requests": 3 * 31_250, "load_sectors": 3 * 125_000, "store_sectors": 125_000, "global_atomics": 1056},
    "fused": {"launches": 1, "load_requests": 2 * 31_250, "load_sectors": 2 * 125_000, "store_sectors": 0, "global_atomics": 1056},
    "float4": {"launches": 1, "load_sectors": 2 * 125_000, "store_sectors": 0, "global_atomics": 489},
    "double": {"launches": 1, "load_requests": 2 * 7813, "load_sectors": 2 * 125_000, "global_atomics": 977},
}

SEGMENTED_SUM = {
    "thread-each": {"shuffles": 0},
    "warp-each": {"shuffles": 5 * 10_000},
    "group-each": {"shuffles": 3 * 313 * 8},
}

_N = 256  # of the matrix products


def _tiled(tile: int, depth: int, each: int, loads: int, stores: int, reads: int) -> Counters:
    """Tiles of `tile` x `depth`, made by warps of `each` outputs; loads and shared stores of a warp for each pair of tiles, shared reads for each step of k."""
    warps = (_N // tile) ** 2 * (tile * tile // each)
    pairs = warps * (_N // depth)
    return {
        "load_requests": pairs * loads, "load_sectors": 2 * 4 * _N * _N // 32 * (_N // tile), "store_sectors": 4 * _N * _N // 32,
        "shared_stores": pairs * stores, "shared_loads": pairs * depth * reads, "bank_conflicts": 0, "barriers": 2 * pairs, "flops": 2 * _N**3,
    }  # fmt: skip


# 5 stores and 32 reads of a warp for each pair of tiles: a word of A four times, a vector of B in four passes; every read in two
_VECTOR = {**_tiled(128, 8, 32 * 64, 2, 5, 4), "shared_load_wavefronts": 1024 * 8 * 8, "shared_store_wavefronts": 1024 * (4 + 4), "sectors_per_load": 16}
MATRIX_PRODUCT = {
    # a warp's step: 32 sectors of A and one of B
    "swapped": {"load_requests": 2 * _N**3 // 32, "load_sectors": 33 * _N**3 // 32, "store_sectors": _N * _N, "flops": 2 * _N**3},
    # one of A and four of B
    "naive": {"load_requests": 2 * _N**3 // 32, "load_sectors": 5 * _N**3 // 32, "store_sectors": _N * _N // 8, "sectors_per_load": 2.5},
    "tiled": _tiled(32, 32, 32, 2, 2, 2),
    "registers-2x2": _tiled(32, 16, 128, 4, 4, 4),
    "registers-4x4": _tiled(64, 16, 512, 8, 8, 8),
    "vector-8x8": _VECTOR,
    "bounds": _VECTOR,
    "double-buffered": {**_VECTOR, "barriers": 1024},
}

_SCANNED = 1 << 18


def _tree_conflicts() -> int:
    """Passes too many of a block's tree over 512 words: up reads two words and writes one, down reads two and writes two, in strides of 2, 4, 8, …"""
    each = 0
    for step in (1 << k for k in range(9)):
        lanes = 256 // step
        each += max(1, lanes // 32) * (max(1, min(32, lanes) // max(1, 32 // (2 * step))) - 1)
    return (3 + 4) * each


SCAN = {
    # 1,024 blocks, 4, 1, and what is before them added to 1,024 and to 4: of each element and its block's offset
    "hillis-steele": {
        "launches": 5, "blocks": 1024 + 4 + 1 + 1024 + 4, "barriers": 9 * 8 * 1029, "bank_conflicts": 0, "load_requests": 8192 + 32 + 1 + 2 * (8192 + 32),
    },
    # nine rounds up and one barrier, nine down and one
    "blelloch": {"launches": 3, "blocks": 512 + 1 + 512, "barriers": 20 * 8 * 513, "bank_conflicts": _tree_conflicts() * 513},
    "conflict-free": {"launches": 3, "blocks": 512 + 1 + 512, "barriers": 20 * 8 * 513, "bank_conflicts": 0},
    # 5 shuffles of the warp, 5 of the warps' sums, 1 for its own
    "shuffle": {"launches": 5, "barriers": 8 * 1029, "shuffles": 11 * 8 * 1029, "bank_conflicts": 0},
    # four vectors; 64 sums are sixteen vectors; each element and its offset again
    "block": {
        "launches": 3, "blocks": 64 + 1 + 64, "load_requests": 64 * 8 * 4 + 1 + 2 * 8192, "load_sectors": 32_768 + 8 + 32_768 + 8192, "barriers": 8 * 65,
        "shuffles": (4 * 5 + 5 + 1 + 4) * 8 * 65, "store_sectors": 32_768 + 64 + 8 + 1 + 32_768,
    },
    "three-pass": {
        "launches": 3, "load_requests": 2 * 64 * 8 * 4 + 1 + 512, "load_sectors": 2 * 32_768 + 8 + 512, "store_sectors": 64 + 8 + 1 + 32_768, "shuffles": 30 * 8 * 65,
    },
    # the first tile tells once, the others twice
    "look-back": {"launches": 1, "blocks": 64, "store_sectors": 32_768 + 1 + 2 * 63, "barriers": 3 * 8 * 64, "shuffles": 30 * 8 * 64},
}  # fmt: skip


def _kept() -> int:
    return int((np.random.default_rng(41).integers(-1000, 1001, _SCANNED) > 0).sum())


COMPACTION = {
    "atomic": {"launches": 1, "atomic_operations": _kept(), "load_requests": 8192},
    "warp": {"launches": 1, "atomic_operations": 8192, "votes": 8192, "load_requests": 8192},
    "block": {"launches": 1, "atomic_operations": 64, "votes": 8192, "load_requests": 8192, "blocks": 64},
    # 64 counts are two warps; every warp reads its block's place
    "ordered": {"launches": 3, "atomic_operations": 0, "votes": 2 * 8192, "load_requests": 2 * 8192 + 2 + 512},
}


def _increments(data: npt.NDArray[np.uint8], *, vectors: bool) -> int:
    """Passes of a warp's increments over the banks: of each bank's different counters, the most. Lanes take bytes side by side, or one each of vectors of 16."""
    warps = data.reshape(-1, 32, 16).transpose(0, 2, 1).reshape(-1, 32) if vectors else data.reshape(-1, 32)
    total = 0
    for warp in warps:
        counters = np.unique(warp)
        total += int(np.bincount(counters % 32).max())
    return total


def _even() -> npt.NDArray[np.uint8]:
    return np.random.default_rng(42).integers(0, 256, _SCANNED).astype(np.uint8)


def _skewed() -> npt.NDArray[np.uint8]:
    generator = np.random.default_rng(43)
    return np.where(generator.random(_SCANNED, dtype=np.float32) < 0.9, 200, generator.integers(0, 256, _SCANNED, dtype=np.uint8)).astype(np.uint8)


_BYTES = {"load_requests": 8192, "sectors_per_load": 1, "shared_atomics": 8192, "global_atomics": 8 * 256}
_VECTORS = {"load_requests": 512, "sectors_per_load": 16, "shared_atomics": 8192, "global_atomics": 8 * 16}
HISTOGRAM = {
    "global": {"load_requests": 8192, "global_atomics": 8192, "shared_atomics": 0},
    "global-skewed": {"load_requests": 8192, "global_atomics": 8192, "shared_atomics": 0},
    "privatised": {**_BYTES, "shared_atomic_wavefronts": _increments(_even(), vectors=False)},
    "per-warp": {**_BYTES, "shared_atomic_wavefronts": _increments(_even(), vectors=False)},
    "vector": {**_VECTORS, "shared_atomic_wavefronts": _increments(_even(), vectors=True)},
    "cub": {"load_requests": 512, "shared_atomics": 8192, "shared_atomic_wavefronts": _increments(_even(), vectors=True)},
    "skewed": {**_VECTORS, "shared_atomic_wavefronts": _increments(_skewed(), vectors=True)},
    "runs": {"load_requests": 512, "sectors_per_load": 16},
}

MATRIX_VECTOR = {
    # 16 warps, 1,024 steps: 32 sectors of the matrix, one of the vector
    "thread-row": {"load_requests": 2 * 16 * 1024, "load_sectors": 33 * 16 * 1024, "shuffles": 0},
    "warp-row": {"load_requests": 2 * 512 * 32, "load_sectors": 2 * 4 * 512 * 32, "shuffles": 5 * 512},
    "warp-float4": {"load_requests": 2 * 512 * 8, "load_sectors": 2 * 16 * 512 * 8, "shuffles": 5 * 512},
    "four-rows": {"load_requests": 5 * 128 * 8, "load_sectors": 5 * 16 * 128 * 8, "shuffles": 5 * 512},
}

BATCHED_PRODUCT = {
    # two rows of a matrix are two sectors, a row of the other is two
    "per-output": {"load_requests": 32 * 8 * 1000, "load_sectors": 2 * 32 * 8 * 1000, "flops": 8192 * 1000},
    "shared": {"load_requests": 2 * 8 * 1000, "load_sectors": 64 * 1000, "shared_loads": 32 * 8 * 1000, "barriers": 8 * 1000, "flops": 8192 * 1000},
    "warp": {"load_requests": 4 * 1000, "load_sectors": 64 * 1000, "shared_loads": 6 * 4 * 1000, "barriers": 0, "flops": 8192 * 1000, "bank_conflicts": 0},
}

COUNTERS: dict[str, dict[str, Counters]] = {
    "vector-add": VECTOR_ADD,
    "saxpy": SAXPY,
    "access-patterns": ACCESS_PATTERNS,
    "transpose": TRANSPOSE,
    "shared-patterns": SHARED_PATTERNS,
    "constant-memory": CONSTANT_MEMORY,
    "reduction": REDUCTION,
    "arg-max": ARG_MAX,
    "dot-product": DOT_PRODUCT,
    "segmented-sum": SEGMENTED_SUM,
    "scan": SCAN,
    "compaction": COMPACTION,
    "histogram": HISTOGRAM,
    "matrix-product": MATRIX_PRODUCT,
    "matrix-vector": MATRIX_VECTOR,
    "batched-product": BATCHED_PRODUCT,
}
