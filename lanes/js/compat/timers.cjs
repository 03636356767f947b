// node:timers and its promises.
const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;

function delay(schedule, clear, ms, value, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = () => {
      clear(timer);
      reject(signal.reason);
    };
    const timer = schedule(() => {
      signal?.removeEventListener('abort', abort);
      resolve(value);
    }, ms);
    signal?.addEventListener('abort', abort, { once: true });
  });
}

const promises = {
  setTimeout: (ms, value, { signal } = {}) => delay(globalThis.setTimeout, clearTimeout, ms, value, signal),
  setImmediate: (value, { signal } = {}) => delay(globalThis.setTimeout, clearTimeout, 0, value, signal),
  async *setInterval(ms, value, options) {
    for (;;) yield promises.setTimeout(ms, value, options);
  },
  scheduler: {
    wait: (ms, options) => promises.setTimeout(ms, undefined, options),
    yield: () => promises.setImmediate(),
  },
};

module.exports = {
  setTimeout, clearTimeout, setInterval, clearInterval,
  setImmediate: (callback, ...args) => globalThis.setTimeout(callback, 0, ...args),
  clearImmediate: clearTimeout,
  promises,
};
