// CryptoKey: a key with its material, which only this folder can read.

const USAGES = ['encrypt', 'decrypt', 'sign', 'verify', 'deriveKey', 'deriveBits', 'wrapKey', 'unwrapKey'];
const TOKEN = Symbol('CryptoKey');
let read;

export class CryptoKey {
  #type;
  #extractable;
  #algorithm;
  #usages;
  #material;

  static {
    read = (key) => key.#material;
  }

  constructor(token, type, extractable, algorithm, usages, material) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#type = type;
    this.#extractable = extractable;
    this.#algorithm = algorithm;
    this.#usages = USAGES.filter((usage) => usages.includes(usage));
    this.#material = material;
  }

  get type() { return this.#type; }
  get extractable() { return this.#extractable; }
  get algorithm() { return this.#algorithm; }
  get usages() { return this.#usages; }
  get [Symbol.toStringTag]() { return 'CryptoKey'; }
}

/** Return a key. `material` is base64: the bytes of a secret key, SPKI or PKCS #8. */
export function createKey(type, extractable, algorithm, usages, material) {
  return new CryptoKey(TOKEN, type, extractable, algorithm, usages, material);
}

/** Return the material of a key as base64. */
export function materialOf(key) {
  return read(key);
}

/** Return usages as a list. Throws TypeError if one does not exist. */
export function usagesOf(usages) {
  const list = Array.from(usages, String);
  const unknown = list.find((usage) => !USAGES.includes(usage));
  if (unknown !== undefined) throw new TypeError(`crypto: ${unknown} is not a key usage`);
  return list;
}
