"""Tools for programs such as coding agents, over the Model Context Protocol."""
