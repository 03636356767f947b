// node:console: the global one.
module.exports = console;
