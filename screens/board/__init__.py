"""The Board: Resources, mounts and Doors as a picture that can be changed."""
