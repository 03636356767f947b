// CryptoKey: a key with its material, which only this folder can read.
import { svcCopied, svcHasLargeBlobs, svcIsLargeBlob } from '../blob.js';
import { bare, freeze } from '../intrinsics.js';

const USAGES = freeze(['encrypt', 'decrypt', 'sign', 'verify', 'deriveKey', 'deriveBits', 'wrapKey', 'unwrapKey']);
const TOKEN = Symbol('CryptoKey');
let read;
let created = false;

/** Return a copy of an algorithm, which the user may change. */
const shown = ({ hash, ...algorithm }) => (hash ? { ...algorithm, hash: { ...hash } } : algorithm);

export class CryptoKey {
  #slots;
  #algorithm;
  #usages;

  static {
    read = (value) => (typeof value === 'object' && value !== null && #slots in value ? value.#slots : undefined);
  }

  constructor(token, slots) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
    this.#slots = slots;
  }

  get type() { return this.#slots.type; }
  get extractable() { return this.#slots.extractable; }
  get algorithm() { return (this.#algorithm ??= shown(this.#slots.algorithm)); }
  get usages() { return (this.#usages ??= [...this.#slots.usages]); }
  get [Symbol.toStringTag]() { return 'CryptoKey'; }
}

/** Return a key. `material` is base64: the bytes of a secret key, SPKI or PKCS #8. */
export function createKey(type, extractable, algorithm, usages, material) {
  created = true;
  const ordered = freeze(USAGES.filter((usage) => usages.includes(usage)));
  return new CryptoKey(TOKEN, freeze(bare({ type, extractable, algorithm: freeze(algorithm), usages: ordered, material })));
}

/** Return the type, extractable, algorithm, usages and material of a key, or undefined for another value. */
export function slotsOf(value) {
  return read(value);
}

/** Return whether a key with these slots has a usage. */
export function permits({ usages }, usage) {
  for (let i = 0; i < usages.length; i++) if (usages[i] === usage) return true;
  return false;
}

/** Return usages as a list. Throws TypeError if one does not exist. */
export function usagesOf(usages) {
  const list = Array.from(usages, String);
  const unknown = list.find((usage) => !USAGES.includes(usage));
  if (unknown !== undefined) throw new TypeError(`crypto: ${unknown} is not a key usage`);
  return list;
}

function isReplaced(value) {
  return Boolean(read(value)) || svcIsLargeBlob(value);
}

function copyOf(value) {
  const slots = read(value);
  return slots ? new CryptoKey(TOKEN, slots) : svcCopied(value);
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
