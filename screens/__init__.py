"""The Console's screens: clients of the control API that never reach into the engine."""
