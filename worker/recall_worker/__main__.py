"""`python -m recall_worker` is `recall-worker`."""

from recall_worker.cli import worker_main

if __name__ == "__main__":
    worker_main()
