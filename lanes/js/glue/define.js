/** Define properties as the engine defines its own: writable, configurable and not enumerable. */
export function define(target, values) {
  for (const name of Reflect.ownKeys(values)) {
    // esbuild renames a class whose name is also that of a global in the bundle.
    if (target === globalThis && typeof values[name] === 'function') Object.defineProperty(values[name], 'name', { value: name });
    Object.defineProperty(target, name, { value: values[name], writable: true, configurable: true });
  }
}

/** Define a read-only property whose value `get` returns. */
export function defineGetter(target, name, get) {
  Object.defineProperty(target, name, { get, enumerable: true, configurable: true });
}

/** Define those properties that the engine lacks. */
export function defineMissing(target, values) {
  define(target, Object.fromEntries(Object.entries(values).filter(([name]) => !(name in target))));
}

/** Compile functions that requests call. The engine compiles a function at its first call, or when `length` is read. */
export function compile(...functions) {
  for (const each of functions) void each.length;
}
