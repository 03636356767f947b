// crypto.subtle, as the Web Cryptography API defines it. The host computes (docs/reference/crypto-api.md).
import { define, defineGetter } from '../define.js';
import './random.js';
import { normalizeAlgorithm, supportsOperation } from './algorithms.js';
import { exportKey, generateKey, importKey, masked, secretBits } from './formats.js';
import { fromBase64, fromJson, toJson } from '../intrinsics.js';
import { base64Of, callDoor, copyOf, isBufferSource, svcRefuse, textFromDoor, untilHosted } from './host.js';
import { CryptoKey, permits, slotsOf, usagesOf } from './key.js';

const nativeDigest = crypto.subtle.digest.bind(crypto.subtle);
const FORMATS = ['raw', 'raw-public', 'raw-secret', 'raw-seed', 'raw-private', 'spki', 'pkcs8', 'jwk'];
const encoder = new TextEncoder(), decoder = new TextDecoder('utf-8', { fatal: true });

function formatOf(format) {
  const text = String(format);
  if (!FORMATS.includes(text)) throw new TypeError(`crypto: ${text} is not a key format`);
  return text;
}

/** Check that a key is for an algorithm and a usage. Throws InvalidAccessError. */
function checkKey(key, { name }, usage) {
  if (key.algorithm.name !== name) svcRefuse('InvalidAccessError', `crypto: the key is for ${key.algorithm.name}, not ${name}`);
  if (!permits(key, usage)) svcRefuse('InvalidAccessError', `crypto: the key does not have the usage ${usage}`);
}

function checkType(key, type) {
  if (key.type !== type) svcRefuse('InvalidAccessError', `crypto: the operation needs a ${type} key, not a ${key.type} one`);
}

/** Return the slots of a key. Throws TypeError for other values. */
function keyOf(value) {
  const slots = slotsOf(value);
  if (!slots) throw new TypeError('crypto: the key is not a CryptoKey');
  return slots;
}

/** Return the normalized algorithm of the first operation that an algorithm has. */
function normalizeFirst(operations, algorithm) {
  for (const operation of operations.slice(0, -1)) {
    try {
      return normalizeAlgorithm(operation, algorithm);
    } catch {
      // The next operation reports the error.
    }
  }
  return normalizeAlgorithm(operations.at(-1), algorithm);
}

/** Return the members of a signature's request. */
function signatureMembers({ name, hash, saltLength }, key) {
  return { algorithm: name, hash: (hash ?? key.algorithm.hash)?.name, salt_length: saltLength, key: key.material };
}

function signData(algorithm, key, data) {
  checkKey(key, algorithm, 'sign');
  if (algorithm.name === 'HMAC') {
    return textFromDoor('hmac', { hash: key.algorithm.hash.name, key: key.material }, data);
  }
  checkType(key, 'private');
  return textFromDoor('sign', signatureMembers(algorithm, key), data);
}

/** Return whether two texts are equal, in a time that depends on their lengths only. */
function isEqual(one, other) {
  let differences = one.length === other.length ? 0 : 1;
  for (let i = 0; i < one.length; i++) differences += one[i] === other[i] ? 0 : 1;
  return differences === 0;
}

function verifyData(algorithm, key, received, data) {
  checkKey(key, algorithm, 'verify');
  if (algorithm.name === 'HMAC') {
    return isEqual(textFromDoor('hmac', { hash: key.algorithm.hash.name, key: key.material }, data), base64Of(received));
  }
  checkType(key, 'public');
  return callDoor('verify', { ...signatureMembers(algorithm, key), signature: base64Of(received) }, data).valid;
}

const GCM_TAGS = [32, 64, 96, 104, 112, 120, 128];

/** Return encrypted or decrypted bytes as base64. An RSA key that encrypts is public, one that decrypts private. */
function cryptBytes(direction, algorithm, key, data) {
  const { name, iv, counter, length, additionalData, tagLength, label } = algorithm;
  if (name === 'RSA-OAEP') checkType(key, direction === 'encrypt' ? 'public' : 'private');
  if (name === 'AES-GCM' && tagLength !== undefined && !GCM_TAGS.includes(tagLength)) {
    svcRefuse('OperationError', `crypto: tagLength is ${tagLength}, not one of ${GCM_TAGS.join(', ')}`);
  }
  return textFromDoor(direction, {
    algorithm: name,
    hash: key.algorithm.hash?.name,
    key: key.material,
    iv: iv && base64Of(iv),
    counter: counter && base64Of(counter),
    length,
    additional_data: additionalData && base64Of(additionalData),
    tag_length: tagLength,
    label: label && base64Of(label),
  }, data);
}

/** Return the shared secret of ECDH or X25519 with `length` bits, or all of it, as base64. */
function agreement({ name, public: other }, key, length) {
  checkType(key, 'private');
  checkType(other, 'public');
  if (other.algorithm.name !== name || other.algorithm.namedCurve !== key.algorithm.namedCurve) {
    svcRefuse('InvalidAccessError', 'crypto: the two keys have different algorithms or curves');
  }
  const secret = textFromDoor('derive', { algorithm: name, key: key.material, public: other.material });
  if (length === null) return secret;
  const bits = fromBase64(secret).length * 8;
  if (length > bits) svcRefuse('OperationError', `crypto: the secret has ${bits} bits, fewer than ${length}`);
  return masked(secret, length);
}

function deriveSecret(algorithm, key, length) {
  const { name, hash, salt, info, iterations, public: other } = algorithm;
  if (other) return agreement(algorithm, key, length);
  if (length === null || length % 8) svcRefuse('OperationError', `crypto: ${name} needs a length that is a multiple of 8`);
  return textFromDoor('derive', {
    algorithm: name,
    hash: hash.name,
    key: key.material,
    salt: base64Of(salt),
    info: info && base64Of(info),
    iterations,
    length: length / 8,
  });
}

/** Return the length in bits of the material for a derived key; null for all that is available. */
function derivedBits(algorithm) {
  const { name, length } = algorithm;
  if (name === 'HKDF' || name === 'PBKDF2') return null;
  if (name === 'HMAC' && length === 0) throw new TypeError('crypto: the length of an HMAC key is 0');
  return secretBits(algorithm);
}

function exportedKey(format, key) {
  if (!supportsOperation(key.algorithm.name, 'exportKey')) svcRefuse('NotSupportedError', `crypto: a key of ${key.algorithm.name} cannot be exported`);
  if (!key.extractable) svcRefuse('InvalidAccessError', 'crypto: the key is not extractable');
  return exportKey(format, key);
}

function jwkOf(text) {
  try {
    return fromJson(decoder.decode(fromBase64(text)));
  } catch {
    // Not a JSON object: reported below.
  }
  return svcRefuse('DataError', 'crypto: the unwrapped key is not a JWK');
}

/** The methods of SubtleCrypto: convert the arguments, then return the function that computes. */
const METHODS = {
  encrypt(algorithm, key, data) {
    const normalized = normalizeAlgorithm('encrypt', algorithm), copy = copyOf(data);
    const slots = keyOf(key);
    return () => {
      checkKey(slots, normalized, 'encrypt');
      return fromBase64(cryptBytes('encrypt', normalized, slots, copy)).buffer;
    };
  },
  decrypt(algorithm, key, data) {
    const normalized = normalizeAlgorithm('decrypt', algorithm), copy = copyOf(data);
    const slots = keyOf(key);
    return () => {
      checkKey(slots, normalized, 'decrypt');
      return fromBase64(cryptBytes('decrypt', normalized, slots, copy)).buffer;
    };
  },
  sign(algorithm, key, data) {
    const normalized = normalizeAlgorithm('sign', algorithm), copy = copyOf(data);
    const slots = keyOf(key);
    return () => fromBase64(signData(normalized, slots, copy)).buffer;
  },
  verify(algorithm, key, received, data) {
    const normalized = normalizeAlgorithm('verify', algorithm), copies = [copyOf(received), copyOf(data)];
    const slots = keyOf(key);
    return () => verifyData(normalized, slots, ...copies);
  },
  generateKey(algorithm, extractable, keyUsages) {
    const normalized = normalizeAlgorithm('generateKey', algorithm), usages = usagesOf(keyUsages);
    return () => generateKey(normalized, Boolean(extractable), usages);
  },
  importKey(format, keyData, algorithm, extractable, keyUsages) {
    const form = formatOf(format), normalized = normalizeAlgorithm('importKey', algorithm), usages = usagesOf(keyUsages);
    if (form === 'jwk' && (isBufferSource(keyData) || typeof keyData !== 'object' || keyData === null)) {
      throw new TypeError('crypto: a JWK is an object');
    }
    const data = form === 'jwk' ? keyData : base64Of(keyData);
    return () => importKey(form, data, normalized, extractable, usages);
  },
  exportKey(format, key) {
    const form = formatOf(format);
    const slots = keyOf(key);
    return () => (form === 'jwk' ? exportedKey(form, slots) : fromBase64(exportedKey(form, slots)).buffer);
  },
  deriveBits(algorithm, baseKey, length = null) {
    const normalized = normalizeAlgorithm('deriveBits', algorithm), bits = length === null ? null : Number(length) >>> 0;
    const slots = keyOf(baseKey);
    return () => {
      checkKey(slots, normalized, 'deriveBits');
      return fromBase64(deriveSecret(normalized, slots, bits)).buffer;
    };
  },
  deriveKey(algorithm, baseKey, derivedKeyType, extractable, keyUsages) {
    const normalized = normalizeAlgorithm('deriveBits', algorithm), usages = usagesOf(keyUsages);
    const imported = normalizeAlgorithm('importKey', derivedKeyType), sized = normalizeAlgorithm('getKeyLength', derivedKeyType);
    const slots = keyOf(baseKey);
    return () => {
      checkKey(slots, normalized, 'deriveKey');
      const secret = deriveSecret(normalized, slots, derivedBits(sized));
      return importKey('raw', secret, imported, extractable, usages);
    };
  },
  wrapKey(format, key, wrappingKey, wrapAlgorithm) {
    const form = formatOf(format), normalized = normalizeFirst(['wrapKey', 'encrypt'], wrapAlgorithm);
    const slots = keyOf(key), wrapping = keyOf(wrappingKey);
    return () => {
      checkKey(wrapping, normalized, 'wrapKey');
      const exported = exportedKey(form, slots);
      const data = form === 'jwk' ? encoder.encode(toJson(exported)) : fromBase64(exported);
      return fromBase64(cryptBytes('encrypt', normalized, wrapping, data)).buffer;
    };
  },
  unwrapKey(format, wrappedKey, unwrappingKey, unwrapAlgorithm, unwrappedKeyAlgorithm, extractable, keyUsages) {
    const form = formatOf(format), copy = copyOf(wrappedKey), usages = usagesOf(keyUsages);
    const normalized = normalizeFirst(['unwrapKey', 'decrypt'], unwrapAlgorithm);
    const imported = normalizeAlgorithm('importKey', unwrappedKeyAlgorithm);
    const slots = keyOf(unwrappingKey);
    return () => {
      checkKey(slots, normalized, 'unwrapKey');
      const data = cryptBytes('decrypt', normalized, slots, copy);
      return importKey(form, form === 'jwk' ? jwkOf(data) : data, imported, extractable, usages);
    };
  },
};

const REQUIRED = { deriveBits: 2 };

const TOKEN = Symbol('SubtleCrypto');

class SubtleCrypto {
  constructor(token) {
    if (token !== TOKEN) throw new TypeError('Illegal constructor');
  }

  async digest(algorithm, data) {
    const { name } = normalizeAlgorithm('digest', algorithm);
    return nativeDigest(name, data);
  }

  get [Symbol.toStringTag]() { return 'SubtleCrypto'; }
}

for (const [name, begin] of Object.entries(METHODS)) {
  const count = REQUIRED[name] ?? begin.length;
  const method = { async [name](...args) {
    if (args.length < count) throw new TypeError(`crypto.subtle.${name} needs ${count} arguments, not ${args.length}`);
    const finish = begin(...args), hosted = untilHosted();
    if (hosted) await hosted;
    return finish();
  } }[name];
  Object.defineProperty(method, 'length', { value: count, configurable: true });
  Object.defineProperty(SubtleCrypto.prototype, name, { value: method, writable: true, enumerable: true, configurable: true });
}

const subtle = new SubtleCrypto(TOKEN);
defineGetter(Crypto.prototype, 'subtle', () => subtle);
define(globalThis, { CryptoKey, SubtleCrypto });
