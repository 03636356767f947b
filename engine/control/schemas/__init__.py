"""Request and response models of the control API."""
