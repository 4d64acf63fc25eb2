"""Parameter vectors that gradients are applied to: in this process, in shared memory or in a server."""
