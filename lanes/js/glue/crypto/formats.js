// Import, export and generation of keys of each algorithm.
import { hmacBits } from './algorithms.js';
import { bare, fromBase64, newBytes, toBase64 } from '../intrinsics.js';
import { callDoor, svcRefuse } from './host.js';
import { createKey } from './key.js';
import { randomBytes } from './random.js';

const URL_SAFE = { alphabet: 'base64url', omitPadding: true };
const CURVES = ['P-256', 'P-384', 'P-521'];
const HASH_NUMBERS = { 'SHA-1': '1', 'SHA-256': '256', 'SHA-384': '384', 'SHA-512': '512' };
const EC_JWK_ALGORITHMS = { 'P-256': 'ES256', 'P-384': 'ES384', 'P-521': 'ES512' };
const DERIVE = ['deriveKey', 'deriveBits'];
const CRYPT = ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'];
const MAX_HMAC_BITS = 524_288;
/** Public exponents of RSA keys that the host generates. */
const EXPONENTS = [3, 65537];

/** By algorithm: the Door's family of a key pair, the usages of each key, the `use` of a JWK. */
const PAIRS = {
  'RSASSA-PKCS1-v1_5': { family: 'RSA', public: ['verify'], private: ['sign'], use: 'sig' },
  'RSA-PSS': { family: 'RSA', public: ['verify'], private: ['sign'], use: 'sig' },
  'RSA-OAEP': { family: 'RSA', public: ['encrypt', 'wrapKey'], private: ['decrypt', 'unwrapKey'], use: 'enc' },
  ECDSA: { family: 'EC', public: ['verify'], private: ['sign'], use: 'sig' },
  ECDH: { family: 'EC', public: [], private: DERIVE, use: 'enc' },
  Ed25519: { family: 'Ed25519', public: ['verify'], private: ['sign'], use: 'sig' },
  X25519: { family: 'X25519', public: [], private: DERIVE, use: 'enc' },
};
const SECRETS = {
  'AES-CTR': { usages: CRYPT, use: 'enc' },
  'AES-CBC': { usages: CRYPT, use: 'enc' },
  'AES-GCM': { usages: CRYPT, use: 'enc' },
  'AES-KW': { usages: ['wrapKey', 'unwrapKey'], use: 'enc' },
  HMAC: { usages: ['sign', 'verify'], use: 'sig' },
};
const KEY_TYPES = { RSA: 'RSA', EC: 'EC', Ed25519: 'OKP', X25519: 'OKP' };

function checkUsages(usages, allowed) {
  const other = usages.find((usage) => !allowed.includes(usage));
  if (other !== undefined) svcRefuse('SyntaxError', `crypto: the key cannot have the usage ${other}`);
}

function refuseFormat(format, { name }) {
  svcRefuse('NotSupportedError', `crypto: the format ${format} is not available for ${name}`);
}

/** Check the members of a JWK that restrict its use. */
function checkJwk(jwk, { kty, use, extractable, usages }) {
  if (jwk.kty !== kty) svcRefuse('DataError', `crypto: kty of the JWK is ${jwk.kty}, not ${kty}`);
  if (usages.length && jwk.use !== undefined && jwk.use !== use) {
    svcRefuse('DataError', `crypto: use of the JWK is ${jwk.use}, not ${use}`);
  }
  const operations = jwk.key_ops;
  if (operations !== undefined) {
    if (!Array.isArray(operations) || new Set(operations).size !== operations.length) {
      svcRefuse('DataError', 'crypto: key_ops of the JWK is not a list of distinct usages');
    }
    const missing = usages.find((usage) => !operations.includes(usage));
    if (missing !== undefined) svcRefuse('DataError', `crypto: key_ops of the JWK does not have ${missing}`);
  }
  if (jwk.ext === false && extractable) svcRefuse('DataError', 'crypto: ext of the JWK is false, so the key is not extractable');
}

function checkJwkAlgorithm(jwk, ...allowed) {
  if (jwk.alg !== undefined && !allowed.includes(jwk.alg)) {
    svcRefuse('DataError', `crypto: alg of the JWK is ${jwk.alg}, not ${allowed.join(' or ')}`);
  }
}

/** Return the `alg` of a JWK, or undefined. */
function jwkAlgorithm({ name, hash, length, namedCurve }) {
  const number = hash && HASH_NUMBERS[hash.name];
  switch (name) {
    case 'RSASSA-PKCS1-v1_5': return `RS${number}`;
    case 'RSA-PSS': return `PS${number}`;
    case 'RSA-OAEP': return number === '1' ? 'RSA-OAEP' : `RSA-OAEP-${number}`;
    case 'ECDSA': return EC_JWK_ALGORITHMS[namedCurve];
    case 'Ed25519': return 'Ed25519';
    case 'HMAC': return `HS${number}`;
    case 'ECDH':
    case 'X25519': return undefined;
    default: return `A${length}${name.slice('AES-'.length)}`;
  }
}

/** Return the algorithm of a pair's key, as `key.algorithm` shows it. */
function pairAlgorithm({ name, hash, namedCurve }, { bits, publicExponent }) {
  if (hash) return { name, modulusLength: bits, publicExponent, hash };
  return namedCurve === undefined ? { name } : { name, namedCurve };
}

function importPair(format, data, algorithm, extractable, usages) {
  const { name, namedCurve } = algorithm, { family, use, ...allowed } = PAIRS[name];
  if (family === 'RSA' ? format === 'raw' : !['raw', 'spki', 'pkcs8', 'jwk'].includes(format)) refuseFormat(format, algorithm);
  const isPrivate = format === 'pkcs8' || (format === 'jwk' && data.d !== undefined);
  checkUsages(usages, isPrivate ? allowed.private : allowed.public);
  if (family === 'EC' && !CURVES.includes(namedCurve)) {
    svcRefuse(format === 'jwk' ? 'DataError' : 'NotSupportedError', `crypto: the curve ${namedCurve} is not available`);
  }
  let key;
  if (format === 'jwk') {
    checkJwk(data, { kty: KEY_TYPES[family], use, extractable, usages });
    if (family === 'RSA') checkJwkAlgorithm(data, jwkAlgorithm(algorithm));
    if (data.oth !== undefined) svcRefuse('NotSupportedError', 'crypto: RSA keys with more than two primes are not available');
    if (name === 'ECDSA') checkJwkAlgorithm(data, EC_JWK_ALGORITHMS[namedCurve]);
    if (name === 'Ed25519') checkJwkAlgorithm(data, 'Ed25519', 'EdDSA');
    const { kty, crv, n, e, d, p, q, dp, dq, qi, x, y } = data;
    key = bare({ kty, crv, n, e, d, p, q, dp, dq, qi, x, y });
  } else key = data;
  const answer = callDoor('import', { algorithm: family, format, curve: namedCurve, key });
  const exponent = answer.public_exponent === undefined ? undefined : fromBase64(answer.public_exponent);
  const shown = pairAlgorithm(algorithm, { bits: answer.bits, publicExponent: exponent });
  return createKey(answer.type, extractable, shown, usages, answer.key);
}

function secretText(format, data, algorithm, checks) {
  if (format === 'raw' || format === 'raw-secret') return data;
  if (format !== 'jwk') refuseFormat(format, algorithm);
  checkJwk(data, { kty: 'oct', ...checks });
  try {
    return toBase64(fromBase64(data.k, URL_SAFE));
  } catch {
    return svcRefuse('DataError', 'crypto: k of the JWK is missing or not base64url');
  }
}

function importSecret(format, data, algorithm, extractable, usages) {
  const { name, hash } = algorithm, { use, usages: allowed } = SECRETS[name];
  checkUsages(usages, allowed);
  const text = secretText(format, data, algorithm, { use, extractable, usages });
  let length = fromBase64(text).length * 8;
  if (name === 'HMAC') {
    const wanted = algorithm.length ?? length;
    if (length === 0 || wanted > length || wanted <= length - 8) {
      svcRefuse('DataError', `crypto: a key of ${length} bits does not have the length ${wanted}`);
    }
    length = wanted;
  } else if (![128, 192, 256].includes(length)) {
    svcRefuse('DataError', `crypto: an AES key has ${length} bits, not 128, 192 or 256`);
  }
  const shown = hash ? { name, hash, length } : { name, length };
  if (format === 'jwk') checkJwkAlgorithm(data, jwkAlgorithm(shown));
  return createKey('secret', extractable, shown, usages, masked(text, length));
}

/** Return the first `bits` of base64. */
export function masked(text, bits) {
  const bytes = fromBase64(text), result = newBytes((bits + 7) >> 3);
  for (let i = 0; i < result.length; i++) result[i] = bytes[i];
  if (bits % 8) result[result.length - 1] &= 0xff << (8 - (bits % 8));
  return toBase64(result);
}

function importInput(format, data, algorithm, extractable, usages) {
  if (format !== 'raw' && format !== 'raw-secret') refuseFormat(format, algorithm);
  checkUsages(usages, DERIVE);
  if (extractable) svcRefuse('SyntaxError', `crypto: a key of ${algorithm.name} cannot be extractable`);
  return createKey('secret', false, { name: algorithm.name }, usages, data);
}

/** Return a key. `data` is a JWK for the format `jwk`, otherwise base64. Throws DOMException. */
export function importKey(format, data, algorithm, extractable, usages) {
  const { name } = algorithm;
  const by = PAIRS[name] ? importPair : SECRETS[name] ? importSecret : importInput;
  const key = by(format, data, algorithm, Boolean(extractable), usages);
  if (key.type !== 'public' && !usages.length) svcRefuse('SyntaxError', 'crypto: the key has no usages');
  return key;
}

function jwkOf(key) {
  const { algorithm, usages, extractable } = key, { family } = PAIRS[algorithm.name] ?? {};
  const parts = family
    ? callDoor('export', { algorithm: family, format: 'jwk', type: key.type, key: key.material }).key
    : { kty: 'oct', k: toBase64(fromBase64(key.material), URL_SAFE) };
  const alg = family === 'EC' ? undefined : jwkAlgorithm(algorithm);
  return { ...parts, ...(alg === undefined ? {} : { alg }), key_ops: [...usages], ext: extractable };
}

/** Return the key with these slots in a format: a JWK or base64. Throws DOMException. */
export function exportKey(format, key) {
  if (format === 'jwk') return jwkOf(key);
  const { algorithm, type, material } = key, pair = PAIRS[algorithm.name];
  const of = (needed) => {
    if (type !== needed) svcRefuse('InvalidAccessError', `crypto: the format ${format} needs a ${needed} key`);
  };
  if (pair && (format === 'spki' || format === 'pkcs8')) {
    of(format === 'spki' ? 'public' : 'private');
    return material;
  }
  if (pair && format === 'raw' && pair.family !== 'RSA') {
    of('public');
    return callDoor('export', { algorithm: pair.family, format, type, key: material }).key;
  }
  if (pair || (format !== 'raw' && format !== 'raw-secret')) refuseFormat(format, algorithm);
  return material;
}

function generatePair(algorithm, extractable, usages) {
  const { name, namedCurve, modulusLength, publicExponent } = algorithm, { family, ...allowed } = PAIRS[name];
  checkUsages(usages, [...allowed.public, ...allowed.private]);
  const privateUsages = usages.filter((usage) => allowed.private.includes(usage));
  const publicUsages = usages.filter((usage) => allowed.public.includes(usage));
  if (family === 'EC' && !CURVES.includes(namedCurve)) {
    svcRefuse('NotSupportedError', `crypto: the curve ${namedCurve} is not available`);
  }
  const exponent = publicExponent && Number(`0x${publicExponent.toHex() || '0'}`);
  if (family === 'RSA' && !EXPONENTS.includes(exponent)) {
    svcRefuse('OperationError', `crypto: publicExponent is ${exponent}, not ${EXPONENTS.join(' or ')}`);
  }
  if (!privateUsages.length) svcRefuse('SyntaxError', 'crypto: the private key has no usages');
  const pair = callDoor('generate', { algorithm: family, curve: namedCurve, bits: modulusLength, public_exponent: exponent });
  const shown = () => pairAlgorithm(algorithm, { bits: modulusLength, publicExponent });
  return {
    publicKey: createKey('public', true, shown(), publicUsages, pair.public),
    privateKey: createKey('private', extractable, shown(), privateUsages, pair.private),
  };
}

/** Return the length in bits of a secret key to generate or to derive. Throws OperationError. */
export function secretBits(algorithm) {
  const { name, length } = algorithm;
  if (name === 'HMAC') return length ?? hmacBits(algorithm);
  if (![128, 192, 256].includes(length)) svcRefuse('OperationError', `crypto: an AES key has 128, 192 or 256 bits, not ${length}`);
  return length;
}

/** Return a new key or pair of keys. Throws DOMException. */
export function generateKey(algorithm, extractable, usages) {
  const { name, hash } = algorithm;
  if (PAIRS[name]) return generatePair(algorithm, extractable, usages);
  checkUsages(usages, SECRETS[name].usages);
  const length = secretBits(algorithm);
  if (length === 0 || length > MAX_HMAC_BITS) svcRefuse('OperationError', `crypto: a key cannot have ${length} bits`);
  if (!usages.length) svcRefuse('SyntaxError', 'crypto: the key has no usages');
  const text = masked(toBase64(randomBytes((length + 7) >> 3)), length);
  return createKey('secret', extractable, hash ? { name, hash, length } : { name, length }, usages, text);
}
