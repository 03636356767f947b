"""The contract of buckets (`tests/engine/bucket`) on a cluster of three nodes."""

from tests.engine.bucket import test_blobs, test_kv

for module in (test_blobs, test_kv):
    globals().update({name: test for name, test in vars(module).items() if name.startswith("test_")})
del module
