// node:process: the global one, which the glue defines.
module.exports = process;
