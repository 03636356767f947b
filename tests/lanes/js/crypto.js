// Checks of crypto.subtle and of `password`. Each returns a value that test_crypto.py compares.
import { password } from '@svc/guest';

const { subtle } = crypto;
const text = new TextEncoder().encode('text');
const RSA = { hash: 'SHA-256', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) };
const SIGNERS = [
  { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' },
  { name: 'ECDSA', namedCurve: 'P-521', hash: 'SHA-512' },
  { name: 'Ed25519' },
  { name: 'RSASSA-PKCS1-v1_5', ...RSA },
  { name: 'RSA-PSS', saltLength: 32, ...RSA },
];
const ES256 = {
  kty: 'EC', crv: 'P-256', x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU', y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
};
const ECDSA = { name: 'ECDSA', namedCurve: 'P-256' };

const stored = [Math.random, crypto.getRandomValues.bind(crypto), crypto.randomUUID.bind(crypto)];

const hex = (buffer) => new Uint8Array(buffer).toHex();

async function thrown(action) {
  try {
    await action();
  } catch (error) {
    return error.name;
  }
  return 'nothing';
}

const aes = (name, usages = ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey']) => subtle.generateKey({ name, length: 256 }, true, usages);
const parameters = (name) => ({
  name, iv: new Uint8Array(name === 'AES-GCM' ? 12 : 16), counter: new Uint8Array(16), length: 64, additionalData: text,
});
const secret = (name, usages) => subtle.importKey('raw', text, name, false, usages);

const builtins = () => [
  Object, Reflect, JSON, Math, Array, String, Number, ArrayBuffer, Uint8Array, Object.getPrototypeOf(Uint8Array), crypto,
  ...[Object, Function, Array, String, Map, Set, WeakMap, ArrayBuffer, Uint8Array, TextEncoder, TextDecoder, Crypto, CryptoKey]
    .map(({ prototype }) => prototype),
  Object.getPrototypeOf(Uint8Array.prototype), Object.getPrototypeOf([][Symbol.iterator]()),
];
const MISSING = ['toJSON', 'oth', 'use', 'alg', 'ext', 'key_ops', 'd', 'crv', 'bits', 'public_exponent', 'private', 'detail', 'alphabet'];

/** Replace the functions and accessors of the engine by ones that store what they receive and return. */
function spy() {
  const { apply, construct, defineProperty, getOwnPropertyDescriptor, ownKeys } = Reflect, seen = new Set();
  const state = { paused: false, texts: () => [...seen].flatMap((value) => textsIn(value)) };
  const textsIn = (value, depth = 0) => {
    if (typeof value === 'string') return [value];
    if (ArrayBuffer.isView(value)) return [new Uint8Array(value.buffer, value.byteOffset, value.byteLength).toBase64()];
    if (value instanceof ArrayBuffer) return [new Uint8Array(value).toBase64()];
    if (typeof value !== 'object' || value === null || depth > 3) return [];
    return Object.values(value).flatMap((each) => textsIn(each, depth + 1));
  };
  const store = (...values) => {
    if (state.paused) return;
    state.paused = true;
    for (const value of values) if (typeof value !== 'function') seen.add(value);
    state.paused = false;
  };
  const watched = (original) => function (...args) {
    store(this, args);
    const result = apply(original, this, args);
    store(result);
    return result;
  };
  state.paused = true;
  for (const holder of builtins()) {
    for (const key of ownKeys(holder)) {
      const { value, get, set, configurable } = getOwnPropertyDescriptor(holder, key);
      if (!configurable || (typeof value === 'function' && value.prototype)) continue;
      if (typeof value === 'function') defineProperty(holder, key, { value: watched(value) });
      else if (get) defineProperty(holder, key, { get: watched(get), set: set && watched(set) });
    }
  }
  for (const name of MISSING) defineProperty(Object.prototype, name, { get: watched(() => undefined), configurable: true });
  globalThis.Uint8Array = new Proxy(Uint8Array, {
    construct(target, args, newTarget) {
      const result = construct(target, args, newTarget);
      store(args, result);
      return result;
    },
  });
  defineProperty(Uint8Array, Symbol.hasInstance, { value: watched((value) => ArrayBuffer.isView(value)) });
  defineProperty(CryptoKey.prototype, 'extractable', { get: () => true });
  defineProperty(CryptoKey.prototype, 'usages', { get: () => ['sign', 'verify', 'encrypt', 'wrapKey'] });
  state.paused = false;
  return state;
}

const checks = {
  async 'replaced-functions'() {
    const HMAC = { name: 'HMAC', hash: 'SHA-256' }, HKDF = { name: 'HKDF', hash: 'SHA-256', salt: text, info: text };
    const secret = crypto.getRandomValues(new Uint8Array(32)), wrapping = await aes('AES-KW', ['wrapKey', 'unwrapKey']), cipher = await aes('AES-GCM');
    const gcm = { name: 'AES-GCM', iv: new Uint8Array(12) };
    const key = await subtle.importKey('raw', secret, HMAC, false, ['sign', 'verify']);
    const onlyVerifies = await subtle.importKey('raw', secret, HMAC, false, ['verify']);
    const base = await subtle.importKey('raw', secret, 'HKDF', false, ['deriveKey', 'deriveBits']);
    const derived = new Uint8Array(await subtle.deriveBits(HKDF, base, 256));
    const pair = await subtle.generateKey(ECDSA, true, ['sign', 'verify']);
    const pkcs8 = new Uint8Array(await subtle.exportKey('pkcs8', pair.privateKey)), { d } = await subtle.exportKey('jwk', pair.privateKey);
    const wrapped = {
      raw: await subtle.wrapKey('raw', await subtle.importKey('raw', secret, HMAC, true, ['sign']), wrapping, 'AES-KW'),
      jwk: await subtle.wrapKey('jwk', pair.privateKey, cipher, gcm),
    };
    const verified = new TextEncoder().encode('verified only'), mac = await subtle.sign(HMAC, key, verified);
    const secrets = { secret, derived, pkcs8, d: Uint8Array.fromBase64(d, { alphabet: 'base64url' }), mac: new Uint8Array(mac) };
    for (const name in secrets) secrets[name] = secrets[name].toBase64();
    secrets.jwk = d;
    const spied = spy();
    const valid = await subtle.verify(HMAC, onlyVerifies, new Uint8Array(32), verified);
    const unwrapped = await subtle.unwrapKey('jwk', wrapped.jwk, cipher, gcm, ECDSA, false, ['sign']);
    const others = [
      await subtle.deriveKey(HKDF, base, { ...HMAC, length: 256 }, false, ['sign']),
      await subtle.unwrapKey('raw', wrapped.raw, wrapping, 'AES-KW', HMAC, false, ['sign']),
      await subtle.generateKey(HMAC, false, ['sign']),
      structuredClone(key),
    ];
    for (const each of others) await subtle.importKey('raw', await subtle.sign(HMAC, each, text), HMAC, false, ['sign']);
    const generated = await subtle.generateKey(ECDSA, false, ['sign']);
    for (const each of [unwrapped, generated.privateKey]) await subtle.sign({ ...ECDSA, hash: 'SHA-256' }, each, text);
    const refused = [
      await thrown(() => subtle.exportKey('raw', key)), await thrown(() => subtle.exportKey('jwk', structuredClone(key))),
      await thrown(() => subtle.sign(HMAC, onlyVerifies, text)),
    ];
    key.usages.push('verify');
    key.algorithm.name = 'AES-GCM';
    refused.push(await thrown(() => subtle.encrypt(gcm, key, text)));
    spied.paused = true;
    const texts = spied.texts();
    const leaked = Object.keys(secrets).filter((name) => texts.some((each) => each.includes(secrets[name])));
    const random = texts.some((each) => each.length === 88), privateKeys = texts.some((each) => each.includes('MIGHAgEAMBMGByqGSM49'));
    return [valid, leaked, random, privateKeys, texts.length > 100, refused];
  },
  'random-bits': () => Array.from({ length: 100 }, () => (Math.random() * 2 ** 32) % 1).some(Boolean),
  async signatures() {
    const results = {};
    for (const algorithm of SIGNERS) {
      const { publicKey, privateKey } = await subtle.generateKey(algorithm, true, ['sign', 'verify']);
      const signature = await subtle.sign(algorithm, privateKey, text);
      const keys = { publicKey, privateKey };
      const valid = [await subtle.verify(algorithm, publicKey, signature, text)];
      for (const [format, key, usage] of [
        ['jwk', 'publicKey', 'verify'], ['spki', 'publicKey', 'verify'], ['jwk', 'privateKey', 'sign'], ['pkcs8', 'privateKey', 'sign'],
      ]) {
        const exported = await subtle.exportKey(format, keys[key]);
        const copy = await subtle.importKey(format, exported, algorithm, true, [usage]);
        const other = usage === 'sign' ? await subtle.sign(algorithm, copy, text) : signature;
        valid.push(await subtle.verify(algorithm, usage === 'sign' ? publicKey : copy, other, text));
      }
      valid.push(await subtle.verify(algorithm, publicKey, signature, text.slice(1)));
      results[algorithm.name + (algorithm.namedCurve ?? '')] = valid;
    }
    return results;
  },
  async 'generated-pair'() {
    const { publicKey, privateKey } = await subtle.generateKey({ name: 'RSA-OAEP', ...RSA }, false, ['encrypt', 'unwrapKey']);
    const { algorithm } = publicKey;
    return [
      publicKey.type, publicKey.extractable, publicKey.usages, privateKey.type, privateKey.extractable, privateKey.usages,
      algorithm.name, algorithm.modulusLength, hex(algorithm.publicExponent), algorithm.hash,
      await thrown(() => subtle.exportKey('pkcs8', privateKey)),
    ];
  },
  async ciphers() {
    const results = {};
    for (const name of ['AES-CBC', 'AES-CTR', 'AES-GCM']) {
      const key = await aes(name);
      const encrypted = await subtle.encrypt(parameters(name), key, text);
      const wrapped = await subtle.wrapKey('jwk', key, key, parameters(name));
      const copy = await subtle.unwrapKey('jwk', wrapped, key, parameters(name), name, true, ['decrypt']);
      results[name] = [encrypted.byteLength, new TextDecoder().decode(await subtle.decrypt(parameters(name), copy, encrypted))];
    }
    const wrapping = await aes('AES-KW', ['wrapKey', 'unwrapKey']), key = await aes('AES-GCM');
    const wrapped = await subtle.wrapKey('raw', key, wrapping, 'AES-KW');
    const copy = await subtle.unwrapKey('raw', wrapped, wrapping, 'AES-KW', 'AES-GCM', true, ['encrypt']);
    results['AES-KW'] = hex(await subtle.exportKey('raw', copy)) === hex(await subtle.exportKey('raw', key));
    const pair = await subtle.generateKey({ name: 'RSA-OAEP', ...RSA }, true, ['encrypt', 'decrypt']);
    const encrypted = await subtle.encrypt({ name: 'RSA-OAEP', label: text }, pair.publicKey, text);
    results['RSA-OAEP'] = new TextDecoder().decode(await subtle.decrypt({ name: 'RSA-OAEP', label: text }, pair.privateKey, encrypted));
    return results;
  },
  async 'large-data'() {
    const key = await aes('AES-GCM'), data = new Uint8Array(2 << 20);
    data.set(text, data.length - 10);
    const encrypted = await subtle.encrypt(parameters('AES-GCM'), key, data);
    const decrypted = await subtle.decrypt(parameters('AES-GCM'), key, encrypted);
    const digests = await Promise.all([data, decrypted].map((each) => subtle.digest('SHA-256', each)));
    return [encrypted.byteLength, decrypted.byteLength, hex(digests[0]) === hex(digests[1])];
  },
  async 'too-large-data'() {
    const key = await aes('AES-GCM');
    return thrown(() => subtle.encrypt(parameters('AES-GCM'), key, new Uint8Array(7 << 20)));
  },
  async derivations() {
    const usages = ['deriveBits', 'deriveKey'];
    const pbkdf2 = { name: 'PBKDF2', hash: 'SHA-256', salt: text, iterations: 2 };
    const hkdf = { name: 'HKDF', hash: 'SHA-256', salt: text, info: text };
    const ecdh = { name: 'ECDH', namedCurve: 'P-256' };
    const [one, other] = [await subtle.generateKey(ecdh, true, usages), await subtle.generateKey(ecdh, true, usages)];
    const shared = (mine, theirs) => subtle.deriveBits({ name: 'ECDH', public: theirs.publicKey }, mine.privateKey, 128);
    const derived = await subtle.deriveKey(
      { name: 'X25519', public: (await subtle.generateKey('X25519', true, usages)).publicKey },
      (await subtle.generateKey('X25519', true, usages)).privateKey,
      { name: 'HMAC', hash: 'SHA-256', length: 256 }, true, ['sign'],
    );
    return [
      hex(await subtle.deriveBits(pbkdf2, await secret('PBKDF2', usages), 64)),
      hex(await subtle.deriveBits(hkdf, await secret('HKDF', usages), 64)),
      hex(await shared(one, other)) === hex(await shared(other, one)),
      derived.algorithm,
    ];
  },
  async hmac() {
    const key = await subtle.importKey('raw', new TextEncoder().encode('Jefe'), { name: 'HMAC', hash: 'SHA-256' }, true, ['sign', 'verify']);
    const data = new TextEncoder().encode('what do ya want for nothing?'), mac = await subtle.sign('HMAC', key, data);
    return [
      hex(mac), await subtle.verify('hmac', key, mac, data), await subtle.verify('HMAC', key, mac.slice(1), data),
      await subtle.exportKey('jwk', key),
    ];
  },
  async digest() {
    return hex(await subtle.digest({ name: 'sha-1' }, new TextEncoder().encode('abc')));
  },
  async errors() {
    const key = await aes('AES-GCM', ['encrypt']), ec = await subtle.importKey('jwk', ES256, ECDSA, true, ['verify']);
    const importJwk = (changes, extractable = true, usages = ['verify']) =>
      thrown(() => subtle.importKey('jwk', { ...ES256, ...changes }, ECDSA, extractable, usages));
    return {
      'unknown algorithm': await thrown(() => subtle.generateKey('DES', true, ['encrypt'])),
      'other operation': await thrown(() => subtle.encrypt('ECDSA', key, text)),
      'missing parameter': await thrown(() => subtle.encrypt('AES-GCM', key, text)),
      'no key': await thrown(() => subtle.encrypt(parameters('AES-GCM'), {}, text)),
      'no data': await thrown(() => subtle.encrypt(parameters('AES-GCM'), key, 'text')),
      'too few arguments': await thrown(() => subtle.encrypt(parameters('AES-GCM'), key)),
      'other algorithm': await thrown(() => subtle.encrypt(parameters('AES-CBC'), key, text)),
      'missing usage': await thrown(() => subtle.decrypt(parameters('AES-GCM'), key, text)),
      'unknown usage': await thrown(() => subtle.generateKey({ name: 'AES-GCM', length: 256 }, true, ['use'])),
      'no usages': await thrown(() => subtle.generateKey({ name: 'AES-GCM', length: 256 }, true, [])),
      'usage of another algorithm': await thrown(() => subtle.generateKey({ name: 'AES-GCM', length: 256 }, true, ['sign'])),
      'key length': await thrown(() => subtle.generateKey({ name: 'AES-GCM', length: 100 }, true, ['encrypt'])),
      'tag length': await thrown(() => subtle.encrypt({ ...parameters('AES-GCM'), tagLength: 5 }, key, text)),
      'broken key': await thrown(() => subtle.importKey('spki', text, ECDSA, true, ['verify'])),
      'broken RSA key': await thrown(() => subtle.importKey('jwk', { kty: 'RSA', n: 'AA', e: 'AQAB' }, { name: 'RSA-PSS', hash: 'SHA-1' }, true, [])),
      'unknown curve': await thrown(() => subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-111' }, true, ['sign'])),
      'unknown format': await thrown(() => subtle.exportKey('pem', key)),
      'format of another key': await thrown(() => subtle.exportKey('spki', key)),
      'format of another type': await thrown(() => subtle.exportKey('pkcs8', ec)),
      'JWK type': await importJwk({ kty: 'RSA' }),
      'JWK curve': await importJwk({ crv: 'P-384' }),
      'JWK point': await importJwk({ y: ES256.x }),
      'JWK algorithm': await importJwk({ alg: 'ES384' }),
      'JWK use': await importJwk({ use: 'enc' }),
      'JWK operations': await importJwk({ key_ops: ['sign'] }),
      'JWK not extractable': await importJwk({ ext: false }),
      'JWK usage': await importJwk({}, true, ['sign']),
      'bytes as JWK': await thrown(() => subtle.importKey('jwk', text, ECDSA, true, ['verify'])),
      'JWK as bytes': await thrown(() => subtle.importKey('raw', ES256, ECDSA, true, ['verify'])),
      'extractable PBKDF2': await thrown(() => subtle.importKey('raw', text, 'PBKDF2', true, ['deriveBits'])),
      'PBKDF2 length': await thrown(async () =>
        subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-1', salt: text, iterations: 1 }, await secret('PBKDF2', ['deriveBits']), 5)),
      'PBKDF2 with a billion rounds': await thrown(async () =>
        subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-1', salt: text, iterations: 1e9 }, await secret('PBKDF2', ['deriveBits']), 256)),
      'RSA with 16,384 bits': await thrown(() => subtle.generateKey({ name: 'RSA-PSS', ...RSA, modulusLength: 16384 }, true, ['sign'])),
      constructor: await thrown(() => new CryptoKey()),
    };
  },
  async classes() {
    const key = await subtle.importKey('jwk', ES256, ECDSA, true, ['verify']);
    return [
      key instanceof CryptoKey, String(key), subtle instanceof SubtleCrypto, subtle === crypto.subtle, Object.keys(key),
      typeof crypto.randomUUID(), crypto.getRandomValues(new Uint8Array(4)).length,
    ];
  },
  async password() {
    const hash = await password.hash('pässword');
    return [
      hash.slice(0, 31), await password.verify('pässword', hash), await password.verify('password', hash),
      await thrown(() => password.verify('password', 'none')), await thrown(() => password.hash(undefined)),
      (await password.hash('pässword')) === hash,
    ];
  },
  async 'random-values'() {
    const fill = async () => crypto.getRandomValues(new Uint8Array(65_537));
    const error = await fill().catch((reason) => reason);
    const other = await thrown(() => crypto.getRandomValues(new Float32Array(65_537)));
    return [other, error.name, error instanceof QuotaExceededError, error instanceof DOMException, error.quota, error.code];
  },
  async 'stored-functions'() {
    const [random, fill, uuid] = stored;
    return [random(), hex(fill(new Uint8Array(8))), uuid()];
  },
  async 'pbkdf2-1000000'() {
    const key = await secret('PBKDF2', ['deriveBits']);
    return (await subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt: text, iterations: 1_000_000 }, key, 256)).byteLength;
  },
};

export default {
  async fetch(request) {
    const check = checks[new URL(request.url).pathname.slice(1)];
    return Response.json(await check());
  },
};
