"""What the host asked of a device, in its order: operations, which of them precede which, and when each would run."""
