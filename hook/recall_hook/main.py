"""Hook: what the client starts on every prompt. This file only gets out of the way fast.

    python -I -S main.py CLIENT EVENT --state DIR --deadline MS [--start EXECUTABLE ARG…]

Flow:  snapshot → [hook] → digest
In:    the client's JSON on stdin, never parsed.   Out: one JSON object on stdout, or nothing; exit 0.
Never: any other exit code, a line on stderr (unless RECALL_DEBUG is set), a wait past the deadline.
Next:  hook/recall_hook/pipe.py: Python keeps modules compiled, a script it compiles on every start
"""

import posix
import sys

try:
    sys.path.insert(0, __file__.rpartition("/")[0])  # -I leaves this folder out; __file__ is absolute
    try:
        import pipe  # type: ignore[import-not-found]  # found by the line above, which mypy does not follow
    except Exception:
        sys.pycache_prefix = "/dev/null"  # a full disk can leave half a .pyc: read the sources instead
        import pipe

    pipe.main(sys.argv)
finally:
    posix._exit(0)  # whatever happened: another exit code would lose the digest, or the person's prompt
