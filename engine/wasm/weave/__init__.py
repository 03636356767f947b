"""Weaving of the WASI library into components: the library runs beside the guest, in its instance."""
