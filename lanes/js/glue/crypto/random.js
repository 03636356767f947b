// QuotaExceededError, and crypto.getRandomValues() with it.
import { define, defineMissing } from '../define.js';

const MAX_RANDOM_BYTES = 65_536;
const INTEGERS = /^(Big)?(Ui|I)nt.*Array$/;
const native = Crypto.prototype.getRandomValues;

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

defineMissing(globalThis, { QuotaExceededError });
define(Crypto.prototype, {
  getRandomValues(array) {
    // The engine refuses arrays of other types.
    if (INTEGERS.test(array?.[Symbol.toStringTag]) && array.byteLength > MAX_RANDOM_BYTES) {
      throw new globalThis.QuotaExceededError(`crypto.getRandomValues: ${array.byteLength} bytes are more than ${MAX_RANDOM_BYTES}`);
    }
    return native.call(this, array);
  },
});
