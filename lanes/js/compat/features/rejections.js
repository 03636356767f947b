// `unhandledrejection` and `rejectionhandled`. The engine reports rejections to its log alone, so Promise is replaced
// in bundles that mention the events, and their async functions are lowered to it. Promises of the engine, such as that
// of fetch(), are not observed.
const NativePromise = Promise;
const { prototype } = NativePromise;
const { then: nativeThen } = prototype;
/** Promises that have a handler. */
const handled = new WeakSet();
/** The reasons of promises whose rejection was dispatched. */
const dispatched = new WeakMap();
let observing = false;

/** Call a function in a task, before which the run does not end. */
function schedule(task) {
  const done = new NativePromise((resolve) => {
    setTimeout(() => {
      try {
        task();
      } finally {
        resolve();
      }
    }, 0);
  });
  globalThis[Symbol.for('svc.wait')]?.(done);
}

function dispatch(type, promise, reason) {
  return dispatchEvent(new PromiseRejectionEvent(type, { promise, reason, cancelable: type === 'unhandledrejection' }));
}

function observe(promise) {
  observing = true;
  try {
    nativeThen.call(promise, undefined, (reason) => {
      if (handled.has(promise)) return;
      schedule(() => {
        if (handled.has(promise)) return;
        dispatched.set(promise, reason);
        if (dispatch('unhandledrejection', promise, reason)) console.error('Unhandled promise rejection:', reason);
      });
    });
  } finally {
    observing = false;
  }
}

globalThis.Promise = new Proxy(NativePromise, {
  construct(target, args, newTarget) {
    const promise = Reflect.construct(target, args, newTarget === Promise ? target : newTarget);
    if (!observing) observe(promise);
    return promise;
  },
});
Object.defineProperty(prototype, 'constructor', { value: Promise, writable: true, configurable: true });
Object.defineProperty(prototype, 'then', {
  value: function then(fulfilled, rejected) {
    if (!handled.has(this)) {
      handled.add(this);
      if (dispatched.has(this)) schedule(() => dispatch('rejectionhandled', this, dispatched.get(this)));
    }
    return nativeThen.call(this, fulfilled, rejected);
  },
  writable: true,
  configurable: true,
});
