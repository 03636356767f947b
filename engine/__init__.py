"""The engine: builds and runs projects. Lanes, Doors and front ends are added by its callers."""
