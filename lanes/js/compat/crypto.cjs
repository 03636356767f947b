// node:crypto: hashes, HMAC, signatures, ciphers and key derivation by the crypto Door, and random bytes.
const { Buffer } = require('node:buffer');
const { nextTick } = process;

const HASHES = {
  md5: 'MD5', sha1: 'SHA-1', sha224: 'SHA-224', sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512',
  'sha512-256': 'SHA-512/256', 'sha3-256': 'SHA3-256', 'sha3-384': 'SHA3-384', 'sha3-512': 'SHA3-512',
};
const HASH_BYTES = { 'SHA-1': 20, 'SHA-224': 28, 'SHA-256': 32, 'SHA-384': 48, 'SHA-512': 64 };
const CURVE_BYTES = { '2a8648ce3d030107': 32, '2b81040022': 48, '2b81040023': 66 };
const OIDS = { '2a864886f70d010101': 'RSA', '2a8648ce3d0201': 'EC', '2b6570': 'Ed25519' };
const MAX_RANDOM_BYTES = 65_536;

function fail(message, code) {
  throw Object.assign(new Error(message), { code });
}

function call(operation, members) {
  if (!process.env.SVC_CRYPTO_ENDPOINT) fail(`crypto: ${operation} is not available while a module is loaded`, 'ERR_SVC_LOADING');
  const [status, text] = globalThis[Symbol.for('svc.doors')]('crypto', `/v1/${operation}`, JSON.stringify(members))
    ?? [413, '{"detail": "crypto: the data is too long, or too many calls are in progress"}'];
  const answer = JSON.parse(text);
  if (status !== 200) fail(answer.detail, 'ERR_CRYPTO_OPERATION_FAILED');
  return answer;
}

function bytes(value, encoding) {
  if (value instanceof KeyObject) return value.bytes;
  if (typeof value === 'string') return Buffer.from(value, encoding === 'buffer' ? 'utf8' : encoding);
  if (value instanceof ArrayBuffer) return Buffer.from(value);
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  throw Object.assign(new TypeError('crypto: the data is not a string, a Buffer or a TypedArray'), { code: 'ERR_INVALID_ARG_TYPE' });
}

const base64 = (value, encoding) => bytes(value, encoding).toString('base64');
const output = (buffer, encoding) => (encoding && encoding !== 'buffer' ? buffer.toString(encoding) : buffer);
const data = (operation, members) => Buffer.from(call(operation, members).data, 'base64');

function hashName(name) {
  const hash = HASHES[String(name).toLowerCase().replace(/^(rsa|ecdsa)-/, '').replace(/^sha-/, 'sha')];
  return hash ?? fail(`crypto: the hash ${name} is not available`, 'ERR_CRYPTO_INVALID_DIGEST');
}

/** Data that `update` collects until the result is requested. */
class Collected {
  parts = [];
  ended = false;
  update(value, encoding) {
    if (this.ended) fail('Digest already called', 'ERR_CRYPTO_HASH_FINALIZED');
    this.parts.push(Buffer.from(bytes(value, encoding)));
    return this;
  }
  write(value, encoding) {
    this.update(value, encoding);
    return true;
  }
  end(value, encoding) {
    if (value !== undefined) this.update(value, encoding);
    return this;
  }
  take() {
    if (this.ended) fail('Digest already called', 'ERR_CRYPTO_HASH_FINALIZED');
    this.ended = true;
    return Buffer.concat(this.parts);
  }
}

class Hash extends Collected {
  constructor(hash, operation = 'digest', members = {}) {
    super();
    this.request = { hash, ...members };
    this.operation = operation;
  }
  digest(encoding) { return output(data(this.operation, { ...this.request, data: base64(this.take()) }), encoding); }
  copy() {
    const copy = new Hash(this.request.hash, this.operation, this.request);
    copy.parts = [...this.parts];
    return copy;
  }
}

class KeyObject {
  constructor(type, bytes, kind) {
    Object.assign(this, { type, bytes, asymmetricKeyType: kind?.toLowerCase() });
    this.symmetricKeySize = type === 'secret' ? bytes.length : undefined;
  }
  export({ format = 'buffer', type } = {}) {
    if (this.type === 'secret') return format === 'jwk' ? { kty: 'oct', k: this.bytes.toString('base64url') } : Buffer.from(this.bytes);
    if (format === 'der') return Buffer.from(this.bytes);
    const label = this.type === 'public' ? 'PUBLIC KEY' : 'PRIVATE KEY';
    if (format === 'pem') return `-----BEGIN ${label}-----\n${this.bytes.toString('base64').replace(/.{64}/g, '$&\n').trimEnd()}\n-----END ${label}-----\n`;
    return fail(`crypto: a ${this.type} key cannot be exported as ${format} ${type ?? ''}`, 'ERR_INVALID_ARG_VALUE');
  }
  equals(other) { return this.type === other.type && Buffer.compare(this.bytes, other.bytes) === 0; }
}

/** Return the DER encoding of an element. */
function der(tag, ...contents) {
  const content = Buffer.concat(contents), size = content.length;
  const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}

const kindOf = (key) => Object.entries(OIDS).find(([oid]) => key.subarray(0, 60).toString('hex').includes(oid))?.[1];
const RSA_HEADER = Buffer.from('300d06092a864886f70d0101010500', 'hex');

/** Return the KeyObject of a PEM or DER text, or of options that contain such a text. */
function keyOf(source, type) {
  if (source instanceof KeyObject) return source;
  const options = typeof source === 'string' || ArrayBuffer.isView(source) ? { key: source } : source;
  if (options.key instanceof KeyObject) return options.key;
  if (options.format === 'jwk') fail('crypto: import a JWK with crypto.subtle.importKey()', 'ERR_INVALID_ARG_VALUE');
  const text = bytes(options.key);
  const [, label, body] = /-----BEGIN ([A-Z ]+)-----([^-]+)-----END/.exec(text.toString('latin1')) ?? [];
  let content = label ? Buffer.from(body.replace(/\s/g, ''), 'base64') : text, found = type;
  if (label === 'RSA PRIVATE KEY') content = der(0x30, Buffer.from([2, 1, 0]), RSA_HEADER, der(4, content));
  else if (label === 'RSA PUBLIC KEY') content = der(0x30, RSA_HEADER, der(3, Buffer.from([0]), content));
  else if (label && !/^(PUBLIC|PRIVATE) KEY$/.test(label)) fail(`crypto: ${label} is not a supported key`, 'ERR_OSSL_UNSUPPORTED');
  if (label) found = label.includes('PRIVATE') ? 'private' : 'public';
  const kind = kindOf(content) ?? fail('crypto: the key is not an RSA, EC or Ed25519 key', 'ERR_OSSL_UNSUPPORTED');
  if (found === 'private' && type === 'public') fail('crypto: a private key is not a public key', 'ERR_INVALID_ARG_VALUE');
  return new KeyObject(found, content, kind);
}

function curveBytes(key) {
  const start = key.subarray(0, 60).toString('hex');
  return Object.entries(CURVE_BYTES).find(([oid]) => start.includes(oid))?.[1] ?? fail('crypto: the curve is not available', 'ERR_OSSL_UNSUPPORTED');
}

function derInteger(bytes) {
  let start = 0;
  while (start < bytes.length - 1 && !bytes[start]) start++;
  const content = bytes.subarray(start);
  return der(2, content[0] & 128 ? Buffer.concat([Buffer.from([0]), content]) : content);
}

/** Return an ECDSA signature of r and s, of the given size each, as DER. */
function toDer(signature) {
  const half = signature.length / 2;
  return der(0x30, derInteger(signature.subarray(0, half)), derInteger(signature.subarray(half)));
}

function fromDer(signature, size) {
  const result = Buffer.alloc(size * 2);
  let at = signature[1] & 128 ? 3 : 2;
  for (const end of [size, size * 2]) {
    const length = signature[at + 1], content = signature.subarray(at + 2, at + 2 + length);
    const trimmed = content.length > size ? content.subarray(content.length - size) : content;
    result.set(trimmed, end - trimmed.length);
    at += 2 + length;
  }
  return result;
}

function signatureOptions(hash, source, type) {
  const key = keyOf(source, type), kind = kindOf(key.bytes);
  const { padding = 1, saltLength = -1, dsaEncoding = 'der' } = source ?? {};
  const algorithm = kind === 'RSA' ? (padding === constants.RSA_PKCS1_PSS_PADDING ? 'RSA-PSS' : 'RSASSA-PKCS1-v1_5') : kind === 'EC' ? 'ECDSA' : kind;
  const name = hash ? hashName(hash) : undefined;
  const salt = algorithm === 'RSA-PSS' ? { salt_length: saltLength < 0 ? HASH_BYTES[name] : saltLength } : {};
  const members = { algorithm, ...(name ? { hash: name } : {}), key: key.bytes.toString('base64'), ...salt };
  return { key, members, der: algorithm === 'ECDSA' && dsaEncoding === 'der' };
}

function sign(hash, value, source) {
  const options = signatureOptions(hash, source, 'private');
  const signature = data('sign', { ...options.members, data: base64(value) });
  return options.der ? toDer(signature) : signature;
}

function publicKey(source) {
  const key = keyOf(source);
  if (key.type !== 'private') return source;
  return fail('crypto: verify needs a public key', 'ERR_INVALID_ARG_VALUE');
}

function verify(hash, value, source, signature) {
  const options = signatureOptions(hash, publicKey(source), 'public');
  const raw = options.der ? fromDer(bytes(signature), curveBytes(options.key.bytes)) : bytes(signature);
  return call('verify', { ...options.members, signature: raw.toString('base64'), data: base64(value) }).valid;
}

class Sign extends Collected {
  constructor(hash) {
    super();
    this.hash = hash;
  }
  sign(key, encoding) { return output(sign(this.hash, this.take(), key), encoding); }
}

class Verify extends Sign {
  verify(key, signature, encoding) { return verify(this.hash, this.take(), key, bytes(signature, encoding)); }
}

class Cipher extends Collected {
  constructor(operation, name, key, iv, { authTagLength = 16 } = {}) {
    super();
    const [, bits, mode] = /^aes-?(128|192|256)-(gcm|cbc|ctr)$/i.exec(name) ?? fail(`crypto: the cipher ${name} is not available`, 'ERR_CRYPTO_UNKNOWN_CIPHER');
    if (bytes(key).length !== bits / 8) throw Object.assign(new RangeError('Invalid key length'), { code: 'ERR_CRYPTO_INVALID_KEYLEN' });
    this.mode = mode.toUpperCase();
    this.tagBytes = authTagLength;
    const start = this.mode === 'CTR' ? { counter: base64(iv), length: 128 } : { iv: base64(iv) };
    const tag = this.mode === 'GCM' ? { tag_length: authTagLength * 8 } : {};
    this.operation = operation;
    this.members = { algorithm: `AES-${this.mode}`, key: base64(key), ...start, ...tag };
  }
  setAAD(value) {
    this.members.additional_data = base64(value);
    return this;
  }
  setAutoPadding() { return this; }
  setAuthTag(tag) {
    this.tag = bytes(tag);
    return this;
  }
  getAuthTag() { return this.tag; }
  update(value, encoding, resultEncoding) {
    super.update(value, encoding);
    return output(Buffer.alloc(0), resultEncoding);
  }
  final(encoding) {
    const gcm = this.mode === 'GCM', decrypts = this.operation === 'decrypt';
    const input = this.take();
    let result = data(this.operation, { ...this.members, data: base64(gcm && decrypts ? Buffer.concat([input, this.tag]) : input) });
    if (gcm && !decrypts) {
      this.tag = result.subarray(result.length - this.tagBytes);
      result = result.subarray(0, result.length - this.tagBytes);
    }
    return output(result, encoding);
  }
}

function randomFillSync(target, offset = 0, size = target.byteLength - offset) {
  const view = bytes(target).subarray(offset, offset + size);
  for (let at = 0; at < view.length; at += MAX_RANDOM_BYTES) {
    const part = new Uint8Array(Math.min(MAX_RANDOM_BYTES, view.length - at));
    view.set(globalThis.crypto.getRandomValues(part), at);
  }
  return target;
}

const randomBytesSync = (size) => randomFillSync(Buffer.alloc(size));

function randomInt(min, max, callback) {
  if (max === undefined || typeof max === 'function') [min, max, callback] = [0, min, max];
  const range = max - min, limit = 2 ** 48 - (2 ** 48 % range);
  let value;
  do value = randomBytesSync(6).readUIntBE(0, 6); while (value >= limit);
  return later(() => min + (value % range), callback);
}

/** Return the result, or pass it to a callback. */
function later(compute, callback) {
  if (!callback) return compute();
  let result, error = null;
  try {
    result = compute();
  } catch (thrown) {
    error = thrown;
  }
  nextTick(() => (error ? callback(error) : callback(null, result)));
}

const pbkdf2Sync = (password, salt, iterations, length, hash) => data('derive', {
  algorithm: 'PBKDF2', key: base64(password), salt: base64(salt), iterations, length, hash: hashName(hash),
});

function scryptSync(password, salt, length, { N, cost = N ?? 16384, r, blockSize = r ?? 8, p, parallelization = p ?? 1 } = {}) {
  return data('derive', { algorithm: 'scrypt', key: base64(password), salt: base64(salt), length, n: cost, r: blockSize, p: parallelization });
}

function hkdfSync(hash, key, salt, info, length) {
  const result = data('derive', { algorithm: 'HKDF', hash: hashName(hash), key: base64(key), salt: base64(salt), info: base64(info), length });
  return result.buffer.slice(result.byteOffset, result.byteOffset + result.length);
}

function timingSafeEqual(a, b) {
  const left = bytes(a), right = bytes(b);
  if (left.length !== right.length) {
    throw Object.assign(new RangeError('Input buffers must have the same byte length'), { code: 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH' });
  }
  let difference = 0;
  for (let at = 0; at < left.length; at++) difference |= left[at] ^ right[at];
  return difference === 0;
}

const constants = { RSA_PKCS1_PADDING: 1, RSA_PKCS1_PSS_PADDING: 6, RSA_PSS_SALTLEN_DIGEST: -1, RSA_PSS_SALTLEN_AUTO: -2 };
const webcrypto = globalThis.crypto;

module.exports = {
  Hash, Hmac: Hash, KeyObject, Sign, Verify,
  constants,
  createCipheriv: (...args) => new Cipher('encrypt', ...args),
  createDecipheriv: (...args) => new Cipher('decrypt', ...args),
  createHash: (name) => new Hash(hashName(name)),
  createHmac: (name, key) => new Hash(hashName(name), 'hmac', { key: base64(key) }),
  createPrivateKey: (source) => keyOf(source, 'private'),
  createPublicKey: (source) => keyOf(source, 'public'),
  createSecretKey: (key, encoding) => new KeyObject('secret', Buffer.from(bytes(key, encoding))),
  createSign: (hash) => new Sign(hash),
  createVerify: (hash) => new Verify(hash),
  getCiphers: () => ['gcm', 'cbc', 'ctr'].flatMap((mode) => [128, 192, 256].map((bits) => `aes-${bits}-${mode}`)),
  getHashes: () => Object.keys(HASHES),
  getRandomValues: (array) => webcrypto.getRandomValues(array),
  hash: (name, value, encoding = 'hex') => new Hash(hashName(name)).update(value).digest(encoding),
  hkdf: (hash, key, salt, info, length, callback) => later(() => hkdfSync(hash, key, salt, info, length), callback),
  hkdfSync,
  pbkdf2: (password, salt, iterations, length, hash, callback) => later(() => pbkdf2Sync(password, salt, iterations, length, hash), callback),
  pbkdf2Sync,
  randomBytes: (size, callback) => later(() => randomBytesSync(size), callback),
  randomFill(target, ...rest) {
    const callback = rest.pop();
    return later(() => randomFillSync(target, ...rest), callback);
  },
  randomFillSync,
  randomInt,
  randomUUID: () => webcrypto.randomUUID(),
  scrypt(password, salt, length, options, callback = options) {
    return later(() => scryptSync(password, salt, length, typeof options === 'object' ? options : {}), callback);
  },
  scryptSync,
  sign: (hash, value, key, callback) => later(() => sign(hash, value, key), callback),
  subtle: webcrypto.subtle,
  timingSafeEqual,
  verify: (hash, value, key, signature, callback) => later(() => verify(hash, value, key, signature), callback),
  webcrypto,
};
