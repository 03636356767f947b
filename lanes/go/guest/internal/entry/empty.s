// Lets the package declare functions that have no body: the host has it.
