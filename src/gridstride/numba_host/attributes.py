"""What a device says of itself (`cuDeviceGetAttribute`), from the device table."""

from __future__ import annotations

from gridstride.machine.devices import DeviceSpec

# Limits that all devices of the table have in common: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_COMMON = {
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": (1 << 31) - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "TOTAL_CONSTANT_MEMORY": 64 << 10,
    "MAX_PITCH": (1 << 31) - 1,
    "TEXTURE_ALIGNMENT": 512,
    "GPU_OVERLAP": 1,
    "KERNEL_EXEC_TIMEOUT": 0,
    "INTEGRATED": 0,
    "CAN_MAP_HOST_MEMORY": 1,
    "COMPUTE_MODE": 0,
    "CONCURRENT_KERNELS": 1,
    "ECC_ENABLED": 1,
    "PCI_BUS_ID": 0,
    "PCI_DEVICE_ID": 0,
    "PCI_DOMAIN_ID": 0,
    "TCC_DRIVER": 0,
    "ASYNC_ENGINE_COUNT": 3,
    "UNIFIED_ADDRESSING": 1,
    "STREAM_PRIORITIES_SUPPORTED": 1,
    "GLOBAL_L1_CACHE_SUPPORTED": 1,
    "LOCAL_L1_CACHE_SUPPORTED": 1,
    "MANAGED_MEMORY": 1,
    "MULTI_GPU_BOARD": 0,
    "HOST_NATIVE_ATOMIC_SUPPORTED": 0,
    "PAGEABLE_MEMORY_ACCESS": 0,
    "CONCURRENT_MANAGED_ACCESS": 1,
    "COMPUTE_PREEMPTION_SUPPORTED": 1,
    "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM": 0,
    "COOPERATIVE_LAUNCH": 1,
    "HOST_REGISTER_SUPPORTED": 1,
    "MEMORY_POOLS_SUPPORTED": 1,
    "VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED": 0,
}


def device_attribute(spec: DeviceSpec, name: str) -> int | None:
    """The attribute `name` (without `CU_DEVICE_ATTRIBUTE_`) of a device; None for what the table does not tell. Clock rates are in kHz."""
    architecture = spec.architecture
    of_device = {
        "MAX_THREADS_PER_BLOCK": architecture.threads_per_block,
        "MAX_SHARED_MEMORY_PER_BLOCK": architecture.shared_per_block,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": architecture.shared_per_block_optin,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": architecture.shared_per_multiprocessor,
        "RESERVED_SHARED_MEMORY_PER_BLOCK": architecture.reserved_shared_per_block,
        "WARP_SIZE": architecture.warp_size,
        "MAX_REGISTERS_PER_BLOCK": architecture.registers_per_block,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": architecture.registers_per_multiprocessor,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": architecture.blocks_per_multiprocessor,
        "MAX_THREADS_PER_MULTIPROCESSOR": architecture.threads_per_multiprocessor,
        "MULTIPROCESSOR_COUNT": spec.multiprocessors,
        "CLOCK_RATE": spec.boost_clock_mhz * 1000,
        "L2_CACHE_SIZE": spec.l2_bytes,
        "COMPUTE_CAPABILITY_MAJOR": spec.compute_capability[0],
        "COMPUTE_CAPABILITY_MINOR": spec.compute_capability[1],
        "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": architecture.fp32_lanes // architecture.fp64_lanes,
        "CLUSTER_LAUNCH": int(spec.compute_capability >= (9, 0)),
    }
    return of_device.get(name, _COMMON.get(name))
