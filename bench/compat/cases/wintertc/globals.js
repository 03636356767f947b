// globals
import { checks, equal } from '../checks.js';

export default checks({
  'globalThis': () => equal(typeof globalThis, 'object'),
  'self': () => equal(self === globalThis, true),
  'structuredClone': () => equal(structuredClone({ a: new Date(0), b: [undefined] }), { a: new Date(0), b: [null] }),
  'queueMicrotask': () => new Promise((resolve) => queueMicrotask(resolve)),
  'setTimeout': () => new Promise((resolve) => setTimeout(resolve, 1)),
  'atob': () => equal(atob('dGVh'), 'tea'),
  'btoa': () => equal(btoa('tea'), 'dGVh'),
  'navigator.userAgent': () => equal(typeof navigator.userAgent, 'string'),
  'performance.now': () => equal(performance.now() >= 0, true),
  'reportError': () => equal(typeof reportError, 'function'),
});
