// QuotaExceededError, and crypto.getRandomValues() with it. Math.random() with as many random bits as a number has.
import { define, defineMissing } from '../define.js';
import { apply, newBytes } from '../intrinsics.js';

const MAX_RANDOM_BYTES = 65_536;
const INTEGERS = /^(Big)?(Ui|I)nt.*Array$/;
const native = Crypto.prototype.getRandomValues, instance = crypto;

const word = Math.random; // a multiple of 2 ** -32
define(Math, { random: () => ((word() * 2 ** 27 >>> 0) * 2 ** 26 + (word() * 2 ** 26 >>> 0)) / 2 ** 53 });

class QuotaExceededError extends DOMException {
  #quota;
  #requested;

  constructor(message = '', { quota = null, requested = null } = {}) {
    super(message, 'QuotaExceededError');
    this.#quota = quota;
    this.#requested = requested;
  }

  get quota() { return this.#quota; }
  get requested() { return this.#requested; }
}

/** Return random bytes. */
export const randomBytes = (size) => apply(native, instance, [newBytes(size)]);

defineMissing(globalThis, { QuotaExceededError });
define(Crypto.prototype, {
  getRandomValues(array) {
    // The engine refuses arrays of other types.
    if (INTEGERS.test(array?.[Symbol.toStringTag]) && array.byteLength > MAX_RANDOM_BYTES) {
      throw new globalThis.QuotaExceededError(`crypto.getRandomValues: ${array.byteLength} bytes are more than ${MAX_RANDOM_BYTES}`);
    }
    return apply(native, this, [array]);
  },
});
