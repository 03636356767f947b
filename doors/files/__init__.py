"""The files Door: large objects by key, whose bytes are blobs of the bucket."""
