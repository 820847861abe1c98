"""Generic addresses of shared and local memory: windows that no host address reaches (PTX ISA 6.4.1)."""

SHARED_WINDOW = 0x0100_0000_0000_0000
LOCAL_WINDOW = 0x0200_0000_0000_0000
