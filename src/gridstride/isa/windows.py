"""Generic addresses of shared and local memory: windows that no host address reaches (PTX ISA 6.4.1).

A shared address is an offset into the block's own shared memory, or leads into that of another block of the cluster:
then the block's rank, counted from 1, stands above the offset. An offset may be negative (an index that went below a
block's memory is still told of that block), so ranks are read from the middle of two.
"""

SHARED_WINDOW = 0x0100_0000_0000_0000
LOCAL_WINDOW = 0x0200_0000_0000_0000

RANK_SHIFT = 24  # of an address in shared memory; no block has as much of it
OWN_RANK = 0  # stands where no rank does: the block's own memory
HIGHEST_RANK = 126  # ranks beyond it (there are none) are taken for it, so that an address stays positive in 32 bits


def split_shared_address(address: int) -> tuple[int | None, int]:
    """Rank of the block that a shared address leads to (None: the block's own), and the offset there."""
    field = (address + (1 << RANK_SHIFT - 1) & 0xFFFF_FFFF) >> RANK_SHIFT
    if not 0 < field <= HIGHEST_RANK + 1:
        return None, address
    return field - 1, address - (field << RANK_SHIFT)
