"""The js lane: JavaScript and TypeScript on the fetch contract."""
