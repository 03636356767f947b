// Algorithms of Web Crypto: their operations with the types of their parameters, and normalization.
import { copyOf, svcRefuse, isBufferSource } from './host.js';
import { slotsOf } from './key.js';

/** Return a converter of integers up to `max`. */
function integerUpTo(max) {
  return (value) => {
    const number = Math.trunc(Number(value));
    if (!Number.isFinite(number) || number < 0 || number > max) {
      throw new TypeError(`crypto: ${String(value)} is not an integer from 0 to ${max}`);
    }
    return number;
  };
}

function bytesMember(value) {
  if (!isBufferSource(value)) throw new TypeError('crypto: a parameter is not an ArrayBuffer or a view of one');
  return copyOf(value);
}

function bigInteger(value) {
  if (!(value instanceof Uint8Array)) throw new TypeError('crypto: publicExponent is not a Uint8Array');
  return copyOf(value);
}

function cryptoKey(value) {
  const slots = slotsOf(value);
  if (!slots) throw new TypeError('crypto: public is not a CryptoKey');
  return slots;
}

const octet = integerUpTo(255), unsignedShort = integerUpTo(65_535), unsignedLong = integerUpTo(4_294_967_295);
const hashAlgorithm = (value) => ({ name: normalizeAlgorithm('digest', value).name });
const requiredMember = (type) => ({ type, required: true }), optionalMember = (type) => ({ type });

const rsaGeneration = {
  hash: requiredMember(hashAlgorithm), modulusLength: requiredMember(unsignedLong), publicExponent: requiredMember(bigInteger),
};
const ecParameters = { namedCurve: requiredMember(String) };
const aesLength = { length: requiredMember(unsignedShort) };
const hmacParameters = { hash: requiredMember(hashAlgorithm), length: optionalMember(unsignedLong) };
const peerParameters = { public: requiredMember(cryptoKey) };
const ctrParameters = { counter: requiredMember(bytesMember), length: requiredMember(octet) };
const gcmParameters = {
  additionalData: optionalMember(bytesMember), iv: requiredMember(bytesMember), tagLength: optionalMember(octet),
};
const pssParameters = { saltLength: requiredMember(unsignedLong) };
const hkdfParameters = {
  hash: requiredMember(hashAlgorithm), info: requiredMember(bytesMember), salt: requiredMember(bytesMember),
};
const pbkdf2Parameters = {
  hash: requiredMember(hashAlgorithm), iterations: requiredMember(unsignedLong), salt: requiredMember(bytesMember),
};

const rsaOperations = (operations) => ({
  ...operations, generateKey: rsaGeneration, importKey: { hash: requiredMember(hashAlgorithm) }, exportKey: {},
});
const aesOperations = (operations) => ({ ...operations, generateKey: aesLength, importKey: {}, exportKey: {}, getKeyLength: aesLength });
const octetPair = (operations) => ({ ...operations, generateKey: {}, importKey: {}, exportKey: {} });
const ecOperations = (operations) => ({ ...operations, generateKey: ecParameters, importKey: ecParameters, exportKey: {} });

/** By name and operation: the members of its parameters in their order of conversion. */
const ALGORITHMS = {
  'SHA-1': { digest: {} },
  'SHA-256': { digest: {} },
  'SHA-384': { digest: {} },
  'SHA-512': { digest: {} },
  'RSASSA-PKCS1-v1_5': rsaOperations({ sign: {}, verify: {} }),
  'RSA-PSS': rsaOperations({ sign: pssParameters, verify: pssParameters }),
  'RSA-OAEP': rsaOperations({ encrypt: { label: optionalMember(bytesMember) }, decrypt: { label: optionalMember(bytesMember) } }),
  ECDSA: ecOperations({ sign: { hash: requiredMember(hashAlgorithm) }, verify: { hash: requiredMember(hashAlgorithm) } }),
  ECDH: ecOperations({ deriveBits: peerParameters }),
  Ed25519: octetPair({ sign: {}, verify: {} }),
  X25519: octetPair({ deriveBits: peerParameters }),
  'AES-CTR': aesOperations({ encrypt: ctrParameters, decrypt: ctrParameters }),
  'AES-CBC': aesOperations({ encrypt: { iv: requiredMember(bytesMember) }, decrypt: { iv: requiredMember(bytesMember) } }),
  'AES-GCM': aesOperations({ encrypt: gcmParameters, decrypt: gcmParameters }),
  'AES-KW': aesOperations({ wrapKey: {}, unwrapKey: {} }),
  HMAC: {
    sign: {}, verify: {}, generateKey: hmacParameters, importKey: hmacParameters, exportKey: {}, getKeyLength: hmacParameters,
  },
  HKDF: { deriveBits: hkdfParameters, importKey: {}, getKeyLength: {} },
  PBKDF2: { deriveBits: pbkdf2Parameters, importKey: {}, getKeyLength: {} },
};

const NAMES = new Map(Object.keys(ALGORITHMS).map((name) => [name.toLowerCase(), name]));

/** Return whether an algorithm has an operation. */
export function supportsOperation(name, operation) {
  return Boolean(ALGORITHMS[name][operation]);
}

/** Return an algorithm with the members that an operation has. Throws NotSupportedError and TypeError. */
export function normalizeAlgorithm(operation, algorithm) {
  const object = typeof algorithm === 'object' && algorithm !== null;
  if (object && algorithm.name === undefined) throw new TypeError('crypto: the algorithm has no name');
  const given = String(object ? algorithm.name : algorithm), name = NAMES.get(given.toLowerCase());
  const members = name && ALGORITHMS[name][operation];
  if (!members) svcRefuse('NotSupportedError', `crypto: ${given} is not available for ${operation}`);
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
