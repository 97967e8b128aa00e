"""The hook: standard library only, moves bytes between the client, the snapshot file and the worker."""
