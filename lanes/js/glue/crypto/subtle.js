// crypto.subtle, as the Web Cryptography API defines it. The host computes (docs/reference/crypto-api.md).
import { define, defineGetter } from '../define.js';
import './random.js';
import { normalizeAlgorithm, supportsOperation } from './algorithms.js';
import { exportKey, generateKey, importKey, masked, secretBits } from './formats.js';
import { bytesOf, callDoor, bytesFromDoor, base64Of, svcRefuse, untilHosted } from './host.js';
import { CryptoKey, materialOf, usagesOf } from './key.js';

const nativeDigest = crypto.subtle.digest.bind(crypto.subtle);
const FORMATS = ['raw', 'raw-public', 'raw-secret', 'raw-seed', 'raw-private', 'spki', 'pkcs8', 'jwk'];
const encoder = new TextEncoder();

function formatOf(format) {
  const text = String(format);
  if (!FORMATS.includes(text)) throw new TypeError(`crypto: ${text} is not a key format`);
  return text;
}

/** Check that a key is for an algorithm and a usage. Throws InvalidAccessError. */
function checkKey(key, { name }, usage) {
  if (key.algorithm.name !== name) svcRefuse('InvalidAccessError', `crypto: the key is for ${key.algorithm.name}, not ${name}`);
  if (!key.usages.includes(usage)) svcRefuse('InvalidAccessError', `crypto: the key does not have the usage ${usage}`);
}

function checkType(key, type) {
  if (key.type !== type) svcRefuse('InvalidAccessError', `crypto: the operation needs a ${type} key, not a ${key.type} one`);
}

function keyOf(value) {
  if (!(value instanceof CryptoKey)) throw new TypeError('crypto: the key is not a CryptoKey');
  return value;
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
  return { algorithm: name, hash: (hash ?? key.algorithm.hash)?.name, salt_length: saltLength, key: materialOf(key) };
}

function signData(algorithm, key, data) {
  checkKey(key, algorithm, 'sign');
  if (algorithm.name === 'HMAC') {
    return bytesFromDoor('hmac', { hash: key.algorithm.hash.name, key: materialOf(key) }, data);
  }
  checkType(key, 'private');
  return bytesFromDoor('sign', signatureMembers(algorithm, key), data);
}

function isEqual(one, other) {
  let difference = one.length ^ other.length;
  for (let i = 0; i < one.length; i++) difference |= one[i] ^ other[i];
  return difference === 0;
}

function verifyData(algorithm, key, received, data) {
  checkKey(key, algorithm, 'verify');
  if (algorithm.name === 'HMAC') {
    return isEqual(bytesFromDoor('hmac', { hash: key.algorithm.hash.name, key: materialOf(key) }, data), received);
  }
  checkType(key, 'public');
  return callDoor('verify', { ...signatureMembers(algorithm, key), signature: base64Of(received) }, data).valid;
}

const GCM_TAGS = [32, 64, 96, 104, 112, 120, 128];

/** Encrypt or decrypt bytes; `direction` is also the type of an RSA key. */
function cryptBytes(direction, algorithm, key, data) {
  const { name, iv, counter, length, additionalData, tagLength, label } = algorithm;
  if (name === 'RSA-OAEP') checkType(key, direction === 'encrypt' ? 'public' : 'private');
  if (name === 'AES-GCM' && tagLength !== undefined && !GCM_TAGS.includes(tagLength)) {
    svcRefuse('OperationError', `crypto: tagLength is ${tagLength}, not one of ${GCM_TAGS.join(', ')}`);
  }
  return bytesFromDoor(direction, {
    algorithm: name,
    hash: key.algorithm.hash?.name,
    key: materialOf(key),
    iv: iv && base64Of(iv),
    counter: counter && base64Of(counter),
    length,
    additional_data: additionalData && base64Of(additionalData),
    tag_length: tagLength,
    label: label && base64Of(label),
  }, data);
}

/** Return the shared secret of ECDH or X25519 with `length` bits, or all of it. */
function agreement({ name, public: other }, key, length) {
  checkType(key, 'private');
  checkType(other, 'public');
  if (other.algorithm.name !== name || other.algorithm.namedCurve !== key.algorithm.namedCurve) {
    svcRefuse('InvalidAccessError', 'crypto: the two keys have different algorithms or curves');
  }
  const secret = bytesFromDoor('derive', { algorithm: name, key: materialOf(key), public: materialOf(other) });
  if (length === null) return secret;
  if (length > secret.length * 8) svcRefuse('OperationError', `crypto: the secret has ${secret.length * 8} bits, fewer than ${length}`);
  return masked(secret, length);
}

function deriveSecret(algorithm, key, length) {
  const { name, hash, salt, info, iterations, public: other } = algorithm;
  if (other) return agreement(algorithm, key, length);
  if (length === null || length % 8) svcRefuse('OperationError', `crypto: ${name} needs a length that is a multiple of 8`);
  return bytesFromDoor('derive', {
    algorithm: name,
    hash: hash.name,
    key: materialOf(key),
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

function jwkOf(bytes) {
  try {
    const jwk = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    if (typeof jwk === 'object' && jwk !== null) return jwk;
  } catch {
    // Not JSON: reported below.
  }
  return svcRefuse('DataError', 'crypto: the unwrapped key is not a JWK');
}

/** The methods of SubtleCrypto: convert the arguments, then return the function that computes. */
const METHODS = {
  encrypt(algorithm, key, data) {
    const normalized = normalizeAlgorithm('encrypt', algorithm), copy = bytesOf(data).slice();
    keyOf(key);
    return () => {
      checkKey(key, normalized, 'encrypt');
      return cryptBytes('encrypt', normalized, key, copy).buffer;
    };
  },
  decrypt(algorithm, key, data) {
    const normalized = normalizeAlgorithm('decrypt', algorithm), copy = bytesOf(data).slice();
    keyOf(key);
    return () => {
      checkKey(key, normalized, 'decrypt');
      return cryptBytes('decrypt', normalized, key, copy).buffer;
    };
  },
  sign(algorithm, key, data) {
    const normalized = normalizeAlgorithm('sign', algorithm), copy = bytesOf(data).slice();
    keyOf(key);
    return () => signData(normalized, key, copy).buffer;
  },
  verify(algorithm, key, received, data) {
    const normalized = normalizeAlgorithm('verify', algorithm), copies = [bytesOf(received).slice(), bytesOf(data).slice()];
    keyOf(key);
    return () => verifyData(normalized, key, ...copies);
  },
  generateKey(algorithm, extractable, keyUsages) {
    const normalized = normalizeAlgorithm('generateKey', algorithm), usages = usagesOf(keyUsages);
    return () => generateKey(normalized, Boolean(extractable), usages);
  },
  importKey(format, keyData, algorithm, extractable, keyUsages) {
    const form = formatOf(format), normalized = normalizeAlgorithm('importKey', algorithm), usages = usagesOf(keyUsages);
    const data = form !== 'jwk' ? bytesOf(keyData).slice() : keyData;
    return () => importKey(form, data, normalized, extractable, usages);
  },
  exportKey(format, key) {
    const form = formatOf(format);
    keyOf(key);
    return () => exportedKey(form, key);
  },
  deriveBits(algorithm, baseKey, length = null) {
    const normalized = normalizeAlgorithm('deriveBits', algorithm), bits = length === null ? null : Number(length) >>> 0;
    keyOf(baseKey);
    return () => {
      checkKey(baseKey, normalized, 'deriveBits');
      return deriveSecret(normalized, baseKey, bits).buffer;
    };
  },
  deriveKey(algorithm, baseKey, derivedKeyType, extractable, keyUsages) {
    const normalized = normalizeAlgorithm('deriveBits', algorithm), usages = usagesOf(keyUsages);
    const imported = normalizeAlgorithm('importKey', derivedKeyType), sized = normalizeAlgorithm('getKeyLength', derivedKeyType);
    keyOf(baseKey);
    return () => {
      checkKey(baseKey, normalized, 'deriveKey');
      const secret = deriveSecret(normalized, baseKey, derivedBits(sized));
      return importKey('raw', secret, imported, extractable, usages);
    };
  },
  wrapKey(format, key, wrappingKey, wrapAlgorithm) {
    const form = formatOf(format), normalized = normalizeFirst(['wrapKey', 'encrypt'], wrapAlgorithm);
    keyOf(key);
    keyOf(wrappingKey);
    return () => {
      checkKey(wrappingKey, normalized, 'wrapKey');
      const data = exportedKey(form, key);
      return cryptBytes('encrypt', normalized, wrappingKey, form === 'jwk' ? encoder.encode(JSON.stringify(data)) : bytesOf(data)).buffer;
    };
  },
  unwrapKey(format, wrappedKey, unwrappingKey, unwrapAlgorithm, unwrappedKeyAlgorithm, extractable, keyUsages) {
    const form = formatOf(format), copy = bytesOf(wrappedKey).slice(), usages = usagesOf(keyUsages);
    const normalized = normalizeFirst(['unwrapKey', 'decrypt'], unwrapAlgorithm);
    const imported = normalizeAlgorithm('importKey', unwrappedKeyAlgorithm);
    keyOf(unwrappingKey);
    return () => {
      checkKey(unwrappingKey, normalized, 'unwrapKey');
      const data = cryptBytes('decrypt', normalized, unwrappingKey, copy);
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
