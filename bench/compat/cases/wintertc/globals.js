// globals
import { checks, equal, thrown } from '../checks.js';

function event(type, dispatch) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(reject, 2000, new Error(`${type} was not dispatched`));
    globalThis.addEventListener(type, (event) => {
      clearTimeout(timer);
      event.preventDefault();
      resolve(event);
    }, { once: true });
    dispatch();
  });
}

export default checks({
  'globalThis': () => equal(typeof globalThis, 'object'),
  'self': () => equal(self === globalThis, true),
  'console': () => equal(['debug', 'error', 'info', 'log', 'trace', 'warn', 'assert', 'count', 'dir', 'group', 'groupEnd', 'table', 'time', 'timeEnd'].filter((name) => typeof console[name] !== 'function'), []),
  'structuredClone': () => {
    const value = { date: new Date(5), map: new Map([[1, new Set([2])]]), list: [, 1], bytes: new Uint8Array([1]), error: new RangeError('no'), pattern: /a/gi };
    value.self = value;
    const copy = structuredClone(value);
    equal(
      [copy.self === copy, copy.date.getTime(), copy.map.get(1).has(2), 0 in copy.list, copy.bytes[0], copy.error.name, String(copy.pattern)],
      [true, 5, true, false, 1, 'RangeError', '/a/gi'],
    );
  },
  'structuredClone of a function': async () => equal(await thrown(() => structuredClone(() => 1)), 'DataCloneError'),
  'structuredClone with transfer': () => {
    const buffer = new ArrayBuffer(8);
    equal([structuredClone(buffer, { transfer: [buffer] }).byteLength, buffer.byteLength], [8, 0]);
  },
  'queueMicrotask': () => new Promise((resolve) => queueMicrotask(resolve)),
  'setTimeout with arguments': async () => equal(await new Promise((resolve) => setTimeout((a, b) => resolve([a, b]), 1, 'a', 'b')), ['a', 'b']),
  'clearTimeout': async () => {
    let called = false;
    clearTimeout(setTimeout(() => (called = true), 1));
    await new Promise((resolve) => setTimeout(resolve, 5));
    equal(called, false);
  },
  'setInterval and clearInterval': () => new Promise((resolve) => {
    let left = 3;
    const timer = setInterval(() => {
      if (--left) return;
      clearInterval(timer);
      resolve();
    }, 1);
  }),
  'atob': async () => equal([atob(' dG Vh '), await thrown(() => atob('%'))], ['tea', 'InvalidCharacterError']),
  'btoa': async () => equal([btoa('\xff'), await thrown(() => btoa('€'))], ['/w==', 'InvalidCharacterError']),
  'navigator.userAgent': () => equal([typeof navigator.userAgent, navigator.userAgent.length > 0], ['string', true]),
  'performance.now': () => equal([typeof performance.now(), performance.now() <= performance.now()], ['number', true]),
  'performance.timeOrigin': () => equal(Math.abs(performance.timeOrigin + performance.now() - Date.now()) < 1000, true),
  'event handlers of the global': () => equal(['onerror', 'onunhandledrejection', 'onrejectionhandled'].filter((name) => !(name in globalThis)), []),
  'reportError': async () => {
    const error = new Error('reported');
    equal((await event('error', () => reportError(error))).error === error, true);
  },
  'unhandledrejection': async () => {
    const { reason, promise } = await event('unhandledrejection', () => void Promise.reject('unhandled'));
    equal([reason, promise instanceof Promise], ['unhandled', true]);
  },
  'rejectionhandled': async () => {
    let promise;
    await event('unhandledrejection', () => (promise = Promise.reject('late')));
    equal((await event('rejectionhandled', () => void promise.catch(() => {}))).reason, 'late');
  },
  'MessageChannel delivers': async () => {
    const { port1, port2 } = new MessageChannel();
    const message = new Promise((resolve) => (port2.onmessage = resolve));
    port1.postMessage({ a: [1] });
    const { data, constructor } = await message;
    port1.close();
    equal([data, constructor.name], [{ a: [1] }, 'MessageEvent']);
  },
});
