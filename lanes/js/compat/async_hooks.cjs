// node:async_hooks: AsyncLocalStorage and AsyncResource.
//
// The engine cannot restore a context after a native `await`. So esbuild lowers async functions in bundles that
// use this module; their `await` calls `then`, which is replaced here as are timers.

/** The stores of the running callback, by AsyncLocalStorage; never changed, only replaced. */
let current = new Map();

function within(context, callback, self, args) {
  const previous = current;
  current = context;
  try {
    return callback.apply(self, args);
  } finally {
    current = previous;
  }
}

/** Return a function that calls `callback` in the current context. */
function bind(callback) {
  const context = current;
  return function (...args) { return within(context, callback, this, args); };
}

const bindable = (callback) => (typeof callback === 'function' ? bind(callback) : callback);

function replace(target, name, wrap) {
  Object.defineProperty(target, name, { value: wrap(target[name]), writable: true, configurable: true });
}

replace(Promise.prototype, 'then', (native) => function then(fulfilled, rejected) {
  return native.call(this, bindable(fulfilled), bindable(rejected));
});
for (const name of ['setTimeout', 'setInterval', 'queueMicrotask']) {
  replace(globalThis, name, (native) => (callback, ...rest) => native(bindable(callback), ...rest));
}

class AsyncLocalStorage {
  #default;
  constructor({ defaultValue, name = '' } = {}) {
    this.#default = defaultValue;
    this.name = name;
  }
  static bind(callback) { return bind(callback); }
  static snapshot() { return bind((callback, ...args) => callback(...args)); }
  getStore() { return current.has(this) ? current.get(this) : this.#default; }
  enterWith(store) { current = new Map(current).set(this, store); }
  run(store, callback, ...args) { return within(new Map(current).set(this, store), callback, undefined, args); }
  exit(callback, ...args) { return this.run(undefined, callback, ...args); }
  disable() {
    current = new Map(current);
    current.delete(this);
  }
}

class AsyncResource {
  #context = current;
  constructor(type) { this.type = type; }
  static bind(callback, _type, self) { return bind(self === undefined ? callback : callback.bind(self)); }
  runInAsyncScope(callback, self, ...args) { return within(this.#context, callback, self, args); }
  bind(callback, self) { return (...args) => this.runInAsyncScope(callback, self, ...args); }
  emitDestroy() { return this; }
  asyncId() { return 0; }
  triggerAsyncId() { return 0; }
}

module.exports = {
  AsyncLocalStorage,
  AsyncResource,
  createHook() {
    const hook = { enable: () => hook, disable: () => hook };
    return hook;
  },
  executionAsyncId: () => 0,
  executionAsyncResource: () => ({}),
  triggerAsyncId: () => 0,
};
