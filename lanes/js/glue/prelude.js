// Runs before the user's module. A deploy build evaluates that module while the component's memory is
// snapshotted, where real randomness would end the build. So random functions return a fixed sequence there, and
// real randomness from the first request on, also where the module stored them. The time is fixed too, and
// `lane.py` warns of its use.
import { define } from './define.js';
import { apply } from './intrinsics.js';

const svcRandom = Math.random;
const { getRandomValues, randomUUID } = Crypto.prototype;
let svcLoading = true;
let svcState = 0x2545f491;

function svcNext() {
  svcState ^= svcState << 13;
  svcState ^= svcState >>> 17;
  svcState ^= svcState << 5;
  return svcState >>> 0;
}

Math.random = () => (svcLoading ? svcNext() / 4294967296 : svcRandom());
define(Crypto.prototype, {
  getRandomValues(array) {
    if (!svcLoading) return apply(getRandomValues, this, [array]);
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = svcNext();
    return array;
  },
  randomUUID() {
    if (!svcLoading) return apply(randomUUID, this, []);
    const hex = [8, 4, 4, 4, 12].map((n) => Array.from({ length: n }, () => (svcNext() & 15).toString(16)).join(''));
    return `${hex[0]}-${hex[1]}-4${hex[2].slice(1)}-8${hex[3].slice(1)}-${hex[4]}`;
  },
});

const SvcDate = Date;
const svcNow = Date.now;
let svcAsked = '';

function svcAskedForTime() {
  svcAsked ||= new Error().stack;
}

globalThis.Date = new Proxy(SvcDate, {
  apply: (target) => (svcAskedForTime(), target()),
  construct(target, args, newTarget) {
    if (args.length === 0) svcAskedForTime();
    return Reflect.construct(target, args, newTarget === globalThis.Date ? target : newTarget);
  },
});
Date.now = () => (svcAskedForTime(), svcNow());

// The end of the user's module: the time from here on is a request's own. Only stdout is seen of a build
// that succeeds.
export function svcRestoreTime() {
  globalThis.Date = SvcDate;
  Date.now = svcNow;
  if (svcAsked) console.log(`svc: the time was asked for\n${svcAsked}svc: end`);
}

export function svcRestoreRandomness() {
  svcLoading = false;
}
