"""Usage: what each Resource took of the machine, minute by minute."""
