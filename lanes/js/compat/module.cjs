// node:module: a bundle has no modules to load while it runs.
module.exports = {
  builtinModules: [],
  isBuiltin: () => false,
  createRequire: () => Object.assign((name) => {
    throw Object.assign(new Error(`require(${JSON.stringify(name)}): a bundle has only the modules that it imports`), { code: 'MODULE_NOT_FOUND' });
  }, { cache: {}, extensions: {} }),
};
