"""Commands: one module for each verb of `recall` that needs more than a line."""
