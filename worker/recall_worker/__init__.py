"""The worker: everything heavy. Reads a vault, keeps its indexes, publishes snapshots, answers hooks."""
