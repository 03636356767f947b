// node:tty: no stream is a terminal.
module.exports = { isatty: () => false };
