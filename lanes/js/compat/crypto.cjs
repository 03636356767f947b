// node:crypto: hashes, HMAC, signatures, ciphers, keys and key derivation by the crypto Door, and random bytes.
const { Buffer } = require('node:buffer');
const { nextTick } = process;

const HASHES = {
  md5: 'MD5', sha1: 'SHA-1', sha224: 'SHA-224', sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512',
  'sha512-256': 'SHA-512/256', 'sha3-256': 'SHA3-256', 'sha3-384': 'SHA3-384', 'sha3-512': 'SHA3-512',
};
const HASH_BYTES = { 'SHA-1': 20, 'SHA-224': 28, 'SHA-256': 32, 'SHA-384': 48, 'SHA-512': 64 };
const CURVE_BYTES = { '2a8648ce3d030107': 32, '2b81040022': 48, '2b81040023': 66 };
const OIDS = { '2a864886f70d010101': 'RSA', '2a8648ce3d0201': 'EC', '2b6570': 'Ed25519', '2b656e': 'X25519' };
const CURVES = { prime256v1: 'P-256', secp256r1: 'P-256', secp384r1: 'P-384', secp521r1: 'P-521' };
const CURVE_OIDS = { 'P-256': '2a8648ce3d030107', 'P-384': '2b81040022', 'P-521': '2b81040023' };
const MAX_RANDOM_BYTES = 65_536;

function fail(message, code, Type = Error) {
  throw Object.assign(new Type(message), { code });
}

function call(operation, members) {
  if (!process.env.SVC_CRYPTO_ENDPOINT) fail(`crypto: ${operation} is not available while a module is loaded`, 'ERR_SVC_LOADING');
  const [status, text] = globalThis[Symbol.for('svc.doors')]('crypto', `/v1/${operation}`, JSON.stringify(members))
    ?? [413, '{"detail": "crypto: the data is too long"}'];
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
    if (format === 'jwk' && this.type !== 'secret') return call('export', { ...asked(this), type: this.type, format: 'jwk' }).key;
    if (this.type === 'secret') return format === 'jwk' ? { kty: 'oct', k: this.bytes.toString('base64url') } : Buffer.from(this.bytes);
    let content = this.bytes, label = this.type === 'public' ? 'PUBLIC KEY' : 'PRIVATE KEY';
    if (type === 'sec1') fail('crypto: export an EC key with the type pkcs8', 'ERR_INVALID_ARG_VALUE', TypeError);
    if (type === 'pkcs1') {
      const start = content.indexOf(RSA_HEADER) + RSA_HEADER.length + 1;
      content = content.subarray(start + (content[start] & 128 ? (content[start] & 127) + 1 : 1) + (this.type === 'public' ? 1 : 0));
      label = `RSA ${label}`;
    }
    if (format === 'der') return Buffer.from(content);
    if (format === 'pem') return `-----BEGIN ${label}-----\n${content.toString('base64').replace(/.{64}/g, '$&\n').trimEnd()}\n-----END ${label}-----\n`;
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

const curveOidOf = (key) => Object.keys(CURVE_BYTES).find((oid) => key.includes(Buffer.from(oid, 'hex')))
  ?? fail('crypto: the curve is not available', 'ERR_OSSL_UNSUPPORTED');

/** Return the PKCS #8 form of a private key of a curve in the form of SEC 1. */
function ecKey(curveOid, content) {
  const names = der(0x30, der(6, Buffer.from('2a8648ce3d0201', 'hex')), der(6, Buffer.from(curveOid, 'hex')));
  return der(0x30, Buffer.from([2, 1, 0]), names, der(4, content));
}

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
  else if (label === 'EC PRIVATE KEY') content = ecKey(curveOidOf(content), content);
  else if (label === 'RSA PUBLIC KEY') content = der(0x30, RSA_HEADER, der(3, Buffer.from([0]), content));
  else if (label && !/^(PUBLIC|PRIVATE) KEY$/.test(label)) fail(`crypto: ${label} is not a supported key`, 'ERR_OSSL_UNSUPPORTED');
  if (label) found = label.includes('PRIVATE') ? 'private' : 'public';
  const kind = kindOf(content) ?? fail('crypto: the key is not an RSA, EC or Ed25519 key', 'ERR_OSSL_UNSUPPORTED');
  if (found === 'private' && type === 'public') fail('crypto: a private key is not a public key', 'ERR_INVALID_ARG_VALUE');
  return new KeyObject(found, content, kind);
}

/** Return the members of a request with a key. */
const asked = (key) => ({ algorithm: kindOf(key.bytes), key: key.bytes.toString('base64') });

/** Return the public key of a public or private key, or of a text of one. */
function publicKeyOf(source) {
  const key = keyOf(source);
  if (key.type === 'public') return key;
  const { kty, crv, x, y, n, e } = key.export({ format: 'jwk' });
  const curve = kty === 'EC' ? { curve: crv } : {};
  const answer = call('import', { ...asked(key), ...curve, format: 'jwk', key: { kty, crv, x, y, n, e } });
  return new KeyObject('public', Buffer.from(answer.key, 'base64'), asked(key).algorithm);
}

const curveBytes = (key) => CURVE_BYTES[curveOidOf(key.subarray(0, 60))];

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

function verify(hash, value, source, signature) {
  const given = source instanceof KeyObject || typeof source === 'string' || ArrayBuffer.isView(source) ? {} : source;
  const options = signatureOptions(hash, { ...given, key: publicKeyOf(source) }, 'public');
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

const BLOCK = 16, WORD = (1n << 128n) - 1n, REDUCTION = 0xe1n << 120n;
const number = (block) => BigInt(`0x${block.toString('hex') || 0}`);

/** Return the product in the field of GCM. */
function times(a, b) {
  let product = 0n;
  for (let bit = 127n; bit >= 0n; bit--) {
    if ((a >> bit) & 1n) product ^= b;
    b = b & 1n ? (b >> 1n) ^ REDUCTION : b >> 1n;
  }
  return product;
}

/** AES, whose `update` returns what is complete, as that of Node.js does. */
class Cipher {
  constructor(decrypts, name, key, iv, { authTagLength = 16 } = {}) {
    const [, bits, mode] = /^aes-?(128|192|256)-(gcm|cbc|ctr)$/i.exec(name) ?? fail(`crypto: the cipher ${name} is not available`, 'ERR_CRYPTO_UNKNOWN_CIPHER');
    if (bytes(key).length !== bits / 8) throw Object.assign(new RangeError('Invalid key length'), { code: 'ERR_CRYPTO_INVALID_KEYLEN' });
    Object.assign(this, { decrypts, mode: mode.toUpperCase(), key: base64(key), iv: Buffer.from(bytes(iv)), tagBytes: authTagLength });
    Object.assign(this, { parts: [], pending: Buffer.alloc(0), count: 0, padding: true, ended: false });
    if (this.mode !== 'GCM' && this.iv.length !== BLOCK) throw Object.assign(new TypeError('Invalid initialization vector'), { code: 'ERR_CRYPTO_INVALID_IV' });
  }
  run(operation, mode, input, members) {
    return data(operation, { algorithm: `AES-${mode}`, key: this.key, data: input.toString('base64'), ...members });
  }
  counter(input, counter, length) {
    return this.run('encrypt', 'CTR', input, { counter: Buffer.from(counter.toString(16).padStart(32, '0'), 'hex').toString('base64'), length });
  }
  /** The first counter: the initialization vector of CTR mode, and the number after that of the tag in GCM mode. */
  first() {
    if (this.mode === 'CTR') return number(this.iv);
    if (this.iv.length === 12) return (number(this.iv) << 32n) | 2n;
    const hash = number(this.counter(Buffer.alloc(BLOCK), 0n, 128));
    let sum = 0n;
    for (let at = 0; at < this.iv.length; at += BLOCK) {
      const block = this.iv.subarray(at, at + BLOCK);
      sum = times(sum ^ (number(block) << BigInt(8 * (BLOCK - block.length))), hash);
    }
    return this.after(times(sum ^ BigInt(8 * this.iv.length), hash), 1);
  }
  /** Return the counter some blocks after another. */
  after(counter, blocks) {
    const part = this.mode === 'CTR' ? WORD : 0xffff_ffffn;
    return (counter & ~part) | ((counter + BigInt(blocks)) & part);
  }
  setAAD(value) {
    this.additional = { additional_data: base64(value) };
    return this;
  }
  setAutoPadding(padding = true) {
    this.padding = padding;
    return this;
  }
  setAuthTag(tag) {
    this.tag = Buffer.from(bytes(tag));
    return this;
  }
  getAuthTag() { return this.tag; }
  update(value, encoding, resultEncoding) {
    if (this.ended) fail('Unsupported state', 'ERR_CRYPTO_INVALID_STATE');
    const input = Buffer.from(bytes(value, encoding));
    return output(this.mode === 'CBC' ? this.chained(input) : this.counted(input), resultEncoding);
  }
  counted(input) {
    this.start ??= this.first();
    const skipped = this.count % BLOCK, counter = this.after(this.start, (this.count - skipped) / BLOCK);
    this.count += input.length;
    if (this.mode === 'GCM') this.parts.push(input);
    return this.counter(Buffer.concat([Buffer.alloc(skipped), input]), counter, this.mode === 'CTR' ? 128 : 32).subarray(skipped);
  }
  chained(input) {
    const all = Buffer.concat([this.pending, input]);
    const ready = this.decrypts && this.padding ? Math.max(0, all.length - 1) : all.length, blocks = all.subarray(0, ready - (ready % BLOCK));
    this.pending = all.subarray(blocks.length);
    if (!blocks.length) return blocks;
    const iv = { iv: this.iv.toString('base64') };
    if (!this.decrypts) {
      const result = this.run('encrypt', 'CBC', blocks, iv).subarray(0, blocks.length);
      this.iv = result.subarray(-BLOCK);
      return result;
    }
    this.iv = blocks.subarray(-BLOCK);
    // A block of padding for the Door, which removes it.
    const padding = this.run('encrypt', 'CBC', Buffer.alloc(0), { iv: this.iv.toString('base64') });
    return this.run('decrypt', 'CBC', Buffer.concat([blocks, padding]), iv);
  }
  final(encoding) {
    if (this.ended) fail('Unsupported state', 'ERR_CRYPTO_INVALID_STATE');
    this.ended = true;
    if (this.mode === 'GCM') this.authenticate();
    if (this.mode !== 'CBC') return output(Buffer.alloc(0), encoding);
    if (this.padding) return output(this.run(this.decrypts ? 'decrypt' : 'encrypt', 'CBC', this.pending, { iv: this.iv.toString('base64') }), encoding);
    return this.pending.length ? fail('wrong final block length', 'ERR_OSSL_WRONG_FINAL_BLOCK_LENGTH') : output(this.pending, encoding);
  }
  authenticate() {
    if (this.decrypts && !this.tag) fail('Unsupported state or unable to authenticate data', 'ERR_CRYPTO_INVALID_STATE');
    const size = this.decrypts ? this.tag.length : this.tagBytes, members = { iv: this.iv.toString('base64'), tag_length: size * 8, ...this.additional };
    const input = Buffer.concat(this.decrypts ? [...this.parts, this.tag] : this.parts);
    const result = this.run(this.decrypts ? 'decrypt' : 'encrypt', 'GCM', input, members);
    if (!this.decrypts) this.tag = result.subarray(result.length - size);
  }
}

function curveOf(name) {
  return CURVES[name] ?? (CURVE_OIDS[name] ? name : undefined)
    ?? fail('Invalid EC curve name', 'ERR_CRYPTO_INVALID_CURVE', TypeError);
}

/** Return the coordinates of a public key of a curve as bytes. */
function coordinates(point, curve) {
  const raw = Buffer.from(point);
  if (raw[0] === 6 || raw[0] === 7) raw[0] = 4;
  let answer;
  try {
    answer = call('import', { algorithm: 'EC', curve, format: 'raw', key: raw.toString('base64') });
  } catch (error) {
    if (error.code === 'ERR_SVC_LOADING') throw error;
    fail('Public key is not valid for specified curve', 'ERR_CRYPTO_ECDH_INVALID_PUBLIC_KEY');
  }
  const spki = Buffer.from(answer.key, 'base64');
  return { spki, point: spki.subarray(-2 * CURVE_BYTES[CURVE_OIDS[curve]]) };
}

/** Return the encoding of a point in a format of Node.js. */
function encoded(point, encoding, format = 'uncompressed') {
  const even = 2 + (point.at(-1) & 1);
  const first = { uncompressed: 4, compressed: even, hybrid: even + 4 }[format]
    ?? fail(`Invalid ECDH format: ${format}`, 'ERR_CRYPTO_ECDH_INVALID_FORMAT', TypeError);
  const body = format === 'compressed' ? point.subarray(0, point.length / 2) : point;
  return output(Buffer.concat([Buffer.from([first]), body]), encoding);
}

class ECDH {
  #curve; #private; #d; #point;
  constructor(name) { this.#curve = curveOf(name); }
  static convertKey(key, curve, encoding, outputEncoding, format) {
    return encoded(coordinates(bytes(key, encoding), curveOf(curve)).point, outputEncoding, format);
  }
  #store(pkcs8) {
    const { d, x, y } = call('export', { algorithm: 'EC', type: 'private', format: 'jwk', key: pkcs8 }).key;
    this.#private = pkcs8;
    [this.#d, this.#point] = [Buffer.from(d, 'base64url'), Buffer.concat([Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')])];
  }
  generateKeys(encoding, format) {
    this.#store(call('generate', { algorithm: 'EC', curve: this.#curve }).private);
    return this.getPublicKey(encoding, format);
  }
  setPrivateKey(key, encoding) {
    const scalar = bytes(key, encoding), oid = CURVE_OIDS[this.#curve], size = CURVE_BYTES[oid];
    const full = Buffer.alloc(size);
    if (scalar.length <= size) full.set(scalar, size - scalar.length);
    const pkcs8 = ecKey(oid, der(0x30, Buffer.from([2, 1, 1]), der(4, full)));
    try {
      this.#store(call('import', { algorithm: 'EC', curve: this.#curve, format: 'pkcs8', key: pkcs8.toString('base64') }).key);
    } catch (error) {
      if (error.code === 'ERR_SVC_LOADING') throw error;
      fail('Private key is not valid for specified curve.', 'ERR_CRYPTO_INVALID_KEYTYPE', RangeError);
    }
  }
  getPrivateKey(encoding) { return output(this.#d ?? fail('Failed to get ECDH private key', 'ERR_CRYPTO_OPERATION_FAILED'), encoding); }
  getPublicKey(encoding, format) {
    return encoded(this.#point ?? fail('Failed to get ECDH public key', 'ERR_CRYPTO_OPERATION_FAILED'), encoding, format);
  }
  computeSecret(other, encoding, outputEncoding) {
    if (!this.#private) fail('Invalid key pair', 'ERR_CRYPTO_INVALID_KEYPAIR', RangeError);
    const peer = coordinates(bytes(other, encoding), this.#curve).spki.toString('base64');
    return output(data('derive', { algorithm: 'ECDH', key: this.#private, public: peer }), outputEncoding);
  }
}

function diffieHellman({ privateKey, publicKey }) {
  const { algorithm, key } = asked(keyOf(privateKey, 'private'));
  return data('derive', { algorithm: algorithm === 'EC' ? 'ECDH' : algorithm, key, public: asked(keyOf(publicKey, 'public')).key });
}

function generateKeyPairSync(type, options = {}) {
  const algorithm = { rsa: 'RSA', ec: 'EC', ed25519: 'Ed25519', x25519: 'X25519' }[type]
    ?? fail(`crypto: keys of type ${type} are not available`, 'ERR_INVALID_ARG_VALUE', TypeError);
  const { modulusLength, publicExponent = 65_537, namedCurve, publicKeyEncoding, privateKeyEncoding } = options;
  const members = { RSA: { bits: modulusLength, public_exponent: publicExponent }, EC: { curve: type === 'ec' && curveOf(namedCurve) } }[algorithm];
  const pair = call('generate', { algorithm, ...members });
  const key = (side, encoding) => {
    const object = new KeyObject(side, Buffer.from(pair[side], 'base64'), algorithm);
    return encoding ? object.export(encoding) : object;
  };
  return { publicKey: key('public', publicKeyEncoding), privateKey: key('private', privateKeyEncoding) };
}

function generateKeyPair(type, options, callback) {
  later(() => generateKeyPairSync(type, options), (error, pair) => callback(error, pair?.publicKey, pair?.privateKey));
}
generateKeyPair[Symbol.for('nodejs.util.promisify.custom')] = async (...args) => generateKeyPairSync(...args);

/** Return a function that encrypts or decrypts with an RSA key. */
const oaep = (operation, keyFor) => (source, value) => {
  const { padding = constants.RSA_PKCS1_OAEP_PADDING, oaepHash = 'sha1', oaepLabel } = source;
  if (padding !== constants.RSA_PKCS1_OAEP_PADDING) fail('crypto: RSA encrypts with OAEP only', 'ERR_INVALID_ARG_VALUE');
  const label = oaepLabel ? { label: base64(oaepLabel) } : {};
  const { key } = asked(keyFor(source));
  return data(operation, { algorithm: 'RSA-OAEP', hash: hashName(oaepHash), ...label, key, data: base64(value) });
};

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

const constants = { RSA_PKCS1_PADDING: 1, RSA_PKCS1_OAEP_PADDING: 4, RSA_PKCS1_PSS_PADDING: 6, RSA_PSS_SALTLEN_DIGEST: -1, RSA_PSS_SALTLEN_AUTO: -2 };
const webcrypto = globalThis.crypto;

module.exports = {
  ECDH, Hash, Hmac: Hash, KeyObject, Sign, Verify,
  constants,
  createCipheriv: (...args) => new Cipher(false, ...args),
  createDecipheriv: (...args) => new Cipher(true, ...args),
  createECDH: (curve) => new ECDH(curve),
  createHash: (name) => new Hash(hashName(name)),
  createHmac: (name, key) => new Hash(hashName(name), 'hmac', { key: base64(key) }),
  createPrivateKey: (source) => keyOf(source, 'private'),
  createPublicKey: publicKeyOf,
  createSecretKey: (key, encoding) => new KeyObject('secret', Buffer.from(bytes(key, encoding))),
  createSign: (hash) => new Sign(hash),
  createVerify: (hash) => new Verify(hash),
  diffieHellman,
  generateKeyPair,
  generateKeyPairSync,
  getCiphers: () => ['gcm', 'cbc', 'ctr'].flatMap((mode) => [128, 192, 256].map((bits) => `aes-${bits}-${mode}`)),
  getCurves: () => Object.keys(CURVES).filter((name) => name !== 'secp256r1'),
  getHashes: () => Object.keys(HASHES),
  getRandomValues: (array) => webcrypto.getRandomValues(array),
  hash: (name, value, encoding = 'hex') => new Hash(hashName(name)).update(value).digest(encoding),
  hkdf: (hash, key, salt, info, length, callback) => later(() => hkdfSync(hash, key, salt, info, length), callback),
  hkdfSync,
  pbkdf2: (password, salt, iterations, length, hash, callback) => later(() => pbkdf2Sync(password, salt, iterations, length, hash), callback),
  pbkdf2Sync,
  privateDecrypt: oaep('decrypt', (source) => keyOf(source, 'private')),
  publicEncrypt: oaep('encrypt', publicKeyOf),
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
