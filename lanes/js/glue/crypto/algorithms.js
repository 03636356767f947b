// Algorithms of Web Crypto: their operations with the types of their parameters, and normalization.
import { bytesOf, fail, isBufferSource } from './host.js';
import { CryptoKey } from './key.js';

/** Return a converter of integers up to `max`. */
function integer(max) {
  return (value) => {
    const number = Math.trunc(Number(value));
    if (!Number.isFinite(number) || number < 0 || number > max) {
      throw new TypeError(`crypto: ${String(value)} is not an integer from 0 to ${max}`);
    }
    return number;
  };
}

function bytes(value) {
  if (!isBufferSource(value)) throw new TypeError('crypto: a parameter is not an ArrayBuffer or a view of one');
  return bytesOf(value).slice();
}

function bigInteger(value) {
  if (!(value instanceof Uint8Array)) throw new TypeError('crypto: publicExponent is not a Uint8Array');
  return value.slice();
}

function cryptoKey(value) {
  if (!(value instanceof CryptoKey)) throw new TypeError('crypto: public is not a CryptoKey');
  return value;
}

const octet = integer(255), unsignedShort = integer(65_535), unsignedLong = integer(4_294_967_295);
const hash = (value) => ({ name: normalize('digest', value).name });
const required = (type) => ({ type, required: true }), optional = (type) => ({ type });

const rsaGeneration = {
  hash: required(hash), modulusLength: required(unsignedLong), publicExponent: required(bigInteger),
};
const ecParameters = { namedCurve: required(String) };
const aesLength = { length: required(unsignedShort) };
const hmacParameters = { hash: required(hash), length: optional(unsignedLong) };
const peer = { public: required(cryptoKey) };
const gcm = { additionalData: optional(bytes), iv: required(bytes), tagLength: optional(octet) };
const hkdf = { hash: required(hash), info: required(bytes), salt: required(bytes) };
const pbkdf2 = { hash: required(hash), iterations: required(unsignedLong), salt: required(bytes) };

const rsa = (operations) => ({ ...operations, generateKey: rsaGeneration, importKey: { hash: required(hash) }, exportKey: {} });
const aes = (operations) => ({ ...operations, generateKey: aesLength, importKey: {}, exportKey: {}, getKeyLength: aesLength });
const octetPair = (operations) => ({ ...operations, generateKey: {}, importKey: {}, exportKey: {} });
const ec = (operations) => ({ ...operations, generateKey: ecParameters, importKey: ecParameters, exportKey: {} });

/** By name and operation: the members of its parameters in their order of conversion. */
const ALGORITHMS = {
  'SHA-1': { digest: {} },
  'SHA-256': { digest: {} },
  'SHA-384': { digest: {} },
  'SHA-512': { digest: {} },
  'RSASSA-PKCS1-v1_5': rsa({ sign: {}, verify: {} }),
  'RSA-PSS': rsa({ sign: { saltLength: required(unsignedLong) }, verify: { saltLength: required(unsignedLong) } }),
  'RSA-OAEP': rsa({ encrypt: { label: optional(bytes) }, decrypt: { label: optional(bytes) } }),
  ECDSA: ec({ sign: { hash: required(hash) }, verify: { hash: required(hash) } }),
  ECDH: ec({ deriveBits: peer }),
  Ed25519: octetPair({ sign: {}, verify: {} }),
  X25519: octetPair({ deriveBits: peer }),
  'AES-CTR': aes({
    encrypt: { counter: required(bytes), length: required(octet) },
    decrypt: { counter: required(bytes), length: required(octet) },
  }),
  'AES-CBC': aes({ encrypt: { iv: required(bytes) }, decrypt: { iv: required(bytes) } }),
  'AES-GCM': aes({ encrypt: gcm, decrypt: gcm }),
  'AES-KW': aes({ wrapKey: {}, unwrapKey: {} }),
  HMAC: {
    sign: {}, verify: {}, generateKey: hmacParameters, importKey: hmacParameters, exportKey: {}, getKeyLength: hmacParameters,
  },
  HKDF: { deriveBits: hkdf, importKey: {}, getKeyLength: {} },
  PBKDF2: { deriveBits: pbkdf2, importKey: {}, getKeyLength: {} },
};

const NAMES = new Map(Object.keys(ALGORITHMS).map((name) => [name.toLowerCase(), name]));

/** Return whether an algorithm has an operation. */
export function supports(name, operation) {
  return Boolean(ALGORITHMS[name][operation]);
}

/** Return an algorithm with the members that an operation has. Throws NotSupportedError and TypeError. */
export function normalize(operation, algorithm) {
  const object = typeof algorithm === 'object' && algorithm !== null;
  if (object && algorithm.name === undefined) throw new TypeError('crypto: the algorithm has no name');
  const given = String(object ? algorithm.name : algorithm), name = NAMES.get(given.toLowerCase());
  const members = name && ALGORITHMS[name][operation];
  if (!members) fail('NotSupportedError', `crypto: ${given} is not available for ${operation}`);
  const normalized = { name };
  for (const [member, { type, required }] of Object.entries(members)) {
    const value = object ? algorithm[member] : undefined;
    if (value !== undefined) normalized[member] = type(value);
    else if (required) throw new TypeError(`crypto: ${name} for ${operation} needs ${member}`);
  }
  return normalized;
}

/** Return the default length in bits of an HMAC key: the block of its hash. */
export function hmacBits({ hash: { name } }) {
  return name === 'SHA-384' || name === 'SHA-512' ? 1024 : 512;
}
