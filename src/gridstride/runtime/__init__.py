"""Devices, arrays, modules and kernels: what `import gridstride` gives, one module each."""
