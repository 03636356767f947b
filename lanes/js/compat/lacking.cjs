// What the js lane lacks of a module of Node.js: functions that can be imported and throw when they are called.

/** Return a function and class, whose members are such functions too, that throws what `refusal` returns for its name. */
function lacking(name, refusal) {
  return new Proxy(class { constructor() { throw refusal(name); } }, {
    get: (target, key) => key in target || isProbe(key) ? target[key] : lacking(`${name}.${key}`, refusal),
    apply() { throw refusal(name); },
  });
}

/** Return whether loaders and promises read a key of each module. */
function isProbe(key) {
  return typeof key === 'symbol' || key === '__esModule' || key === 'then' || key === 'default';
}

/** Return a module with what it has; `text` ends the message of the error that its other functions throw. */
module.exports = (module, text, has = {}) => {
  const refusal = (name) => Object.assign(new Error(`${name} is not available: ${text}`), { code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM' });
  // A prototype, because esbuild copies the properties of a module and retains its prototype.
  const others = new Proxy({}, { get: (_, key) => (isProbe(key) ? undefined : lacking(`${module}.${key}`, refusal)) });
  return Object.assign(Object.create(others), has);
};
