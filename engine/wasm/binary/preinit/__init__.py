"""Pre-initialization: run a component's start-up once and snapshot its memory."""
