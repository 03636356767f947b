// CryptoKey: a key with its material, which only this folder can read.
import { svcCopied, svcHasLargeBlobs, svcIsLargeBlob } from '../blob.js';

const USAGES = ['encrypt', 'decrypt', 'sign', 'verify', 'deriveKey', 'deriveBits', 'wrapKey', 'unwrapKey'];
const TOKEN = Symbol('CryptoKey');
let read;
let created = false;

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
  created = true;
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

function isReplaced(value) {
  return value instanceof CryptoKey || svcIsLargeBlob(value);
}

function copyOf(value) {
  if (!(value instanceof CryptoKey)) return svcCopied(value);
  return createKey(value.type, value.extractable, value.algorithm, value.usages, read(value));
}

/** Yield the path and the value of each key and large blob in plain objects and arrays. */
function* keysIn(value, path = [], seen = new Set()) {
  if (isReplaced(value)) {
    yield [path, value];
  } else if (value !== null && typeof value === 'object' && !seen.has(value)) {
    seen.add(value);
    const isPlain = Array.isArray(value) || [Object.prototype, null].includes(Object.getPrototypeOf(value));
    if (isPlain) for (const name of Object.keys(value)) yield* keysIn(value[name], [...path, name], seen);
  }
}

/** Clone a value with `clone`, which makes other objects of keys and large blobs, and put copies in their place. */
export function cloneWithKeys(value, clone) {
  const result = { value: clone(value) }, clones = new Map();
  if (!created && !svcHasLargeBlobs()) return result.value;
  for (const [path, key] of keysIn(value)) {
    if (!clones.has(key)) clones.set(key, copyOf(key));
    const names = ['value', ...path], last = names.pop();
    names.reduce((object, name) => object[name], result)[last] = clones.get(key);
  }
  return result.value;
}
