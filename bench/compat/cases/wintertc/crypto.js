// crypto
import { bytes, checks, equal, hex, thrown } from '../checks.js';

const { subtle } = crypto;

async function signs(algorithm, ...parameters) {
  const { privateKey, publicKey } = await subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const signature = await subtle.sign(parameters[0] ?? algorithm, privateKey, bytes('tea'));
  const spki = await subtle.importKey('spki', await subtle.exportKey('spki', publicKey), algorithm, true, ['verify']);
  const jwk = await subtle.importKey('jwk', await subtle.exportKey('jwk', publicKey), algorithm, true, ['verify']);
  const pkcs8 = await subtle.importKey('pkcs8', await subtle.exportKey('pkcs8', privateKey), algorithm, false, ['sign']);
  const again = await subtle.sign(parameters[0] ?? algorithm, pkcs8, bytes('tea'));
  const verify = (key, value, text) => subtle.verify(parameters[0] ?? algorithm, key, value, bytes(text));
  equal([await verify(spki, signature, 'tea'), await verify(jwk, again, 'tea'), await verify(spki, signature, 'Tea'), pkcs8.extractable], [true, true, false, false]);
}

async function encrypts(algorithm, name) {
  const key = await subtle.generateKey({ name, length: 256 }, true, ['encrypt', 'decrypt']);
  const data = await subtle.encrypt({ ...algorithm, name }, key, bytes('tea'));
  equal(hex(await subtle.decrypt({ ...algorithm, name }, key, data)), '746561');
}

const RSA = { modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' };

export default checks({
  'getRandomValues': async () => {
    const values = crypto.getRandomValues(new Uint32Array(8));
    equal([new Set(values).size > 4, await thrown(() => crypto.getRandomValues(new Float32Array(1))), await thrown(() => crypto.getRandomValues(new Uint8Array(65537)))],
      [true, 'TypeMismatchError', 'QuotaExceededError']);
  },
  'randomUUID': () => equal(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/.test(crypto.randomUUID()), true),
  'digest': async () => equal(await Promise.all(['SHA-1', 'SHA-256', 'SHA-384', 'SHA-512'].map(async (name) => hex(await subtle.digest(name, bytes('tea'))).slice(0, 16))),
    ['75490f32c06a5005', 'a9f74d1ec36ebdeb', '86fa5b02aa63fd09', 'bef801bf86cddac7']),
  'HMAC': async () => {
    const key = await subtle.importKey('raw', bytes('key'), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify']);
    const signature = await subtle.sign('HMAC', key, bytes('tea'));
    equal([hex(signature).slice(0, 16), await subtle.verify('HMAC', key, signature, bytes('tea'))], ['300fb267ae149d11', true]);
  },
  'RSASSA-PKCS1-v1_5': () => signs({ name: 'RSASSA-PKCS1-v1_5', ...RSA }),
  'RSA-PSS': () => signs({ name: 'RSA-PSS', ...RSA }, { name: 'RSA-PSS', saltLength: 32 }),
  'ECDSA': () => signs({ name: 'ECDSA', namedCurve: 'P-256' }, { name: 'ECDSA', hash: 'SHA-256' }),
  'Ed25519': () => signs({ name: 'Ed25519' }),
  'RSA-OAEP': async () => {
    const { publicKey, privateKey } = await subtle.generateKey({ name: 'RSA-OAEP', ...RSA }, false, ['encrypt', 'decrypt']);
    equal(hex(await subtle.decrypt('RSA-OAEP', privateKey, await subtle.encrypt('RSA-OAEP', publicKey, bytes('tea')))), '746561');
  },
  'AES-GCM': () => encrypts({ iv: new Uint8Array(12), additionalData: bytes('a') }, 'AES-GCM'),
  'AES-CBC': () => encrypts({ iv: new Uint8Array(16) }, 'AES-CBC'),
  'AES-CTR': () => encrypts({ counter: new Uint8Array(16), length: 64 }, 'AES-CTR'),
  'AES-KW': async () => {
    const wrapper = await subtle.generateKey({ name: 'AES-KW', length: 128 }, false, ['wrapKey', 'unwrapKey']);
    const key = await subtle.importKey('raw', new Uint8Array(16).fill(3), 'AES-GCM', true, ['encrypt']);
    const copy = await subtle.unwrapKey('raw', await subtle.wrapKey('raw', key, wrapper, 'AES-KW'), wrapper, 'AES-KW', 'AES-GCM', true, ['encrypt']);
    equal(hex(await subtle.exportKey('raw', copy)), '03'.repeat(16));
  },
  'PBKDF2': async () => {
    const key = await subtle.importKey('raw', bytes('tea'), 'PBKDF2', false, ['deriveBits']);
    const bits = await subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt: bytes('tea'), iterations: 20 }, key, 128);
    equal(hex(bits), 'fd81a27a25913efbc998c8bebaa64022');
  },
  'HKDF': async () => {
    const key = await subtle.importKey('raw', new Uint8Array(22).fill(11), 'HKDF', false, ['deriveKey', 'deriveBits']);
    const bits = await subtle.deriveBits({ name: 'HKDF', hash: 'SHA-256', salt: Uint8Array.from({ length: 13 }, (_, n) => n), info: Uint8Array.from({ length: 10 }, (_, n) => 240 + n) }, key, 336);
    equal(hex(bits).slice(0, 20), '3cb25f25faacd57a9043');
  },
  'ECDH': async () => {
    const pairs = await Promise.all([1, 2].map(() => subtle.generateKey({ name: 'ECDH', namedCurve: 'P-256' }, false, ['deriveBits'])));
    const bits = await Promise.all(pairs.map(({ privateKey }, n) => subtle.deriveBits({ name: 'ECDH', public: pairs[1 - n].publicKey }, privateKey, 256)));
    equal(hex(bits[0]) === hex(bits[1]), true);
  },
  'X25519': async () => {
    const pairs = await Promise.all([1, 2].map(() => subtle.generateKey('X25519', false, ['deriveBits'])));
    const bits = await Promise.all(pairs.map(({ privateKey }, n) => subtle.deriveBits({ name: 'X25519', public: pairs[1 - n].publicKey }, privateKey, 256)));
    equal(hex(bits[0]) === hex(bits[1]), true);
  },
  'key usages': async () => {
    const key = await subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', false, ['decrypt']);
    equal([await thrown(() => subtle.encrypt({ name: 'AES-GCM', iv: new Uint8Array(12) }, key, bytes('x'))), await thrown(() => subtle.exportKey('raw', key)),
      await thrown(() => subtle.importKey('raw', new Uint8Array(15), 'AES-GCM', false, ['encrypt'])), await thrown(() => subtle.digest('MD5', bytes('x')))],
    ['InvalidAccessError', 'InvalidAccessError', 'DataError', 'NotSupportedError']);
  },
});
