"""Several processes that serve one Project: `fleet.py` starts them, `worker.py` is what each runs."""
