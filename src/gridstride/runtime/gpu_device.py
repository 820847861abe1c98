from gridstride.errors import UnsupportedError


def open_gpu(index, *, blocking, per_thread_default):
    raise UnsupportedError("this needs an NVIDIA GPU, and NVIDIA's driver is not installed here")
