// Checks of bundling and of modules of Node.js. Each returns a value that test_bundling.py compares.
import assert from 'node:assert';
import { env, waitUntil, WorkerEntrypoint } from 'cloudflare:workers';
import { existsSync, promises as files, writeFileSync } from 'fs';
import http, { createServer } from 'http';
import { createRequire } from 'module';
import { isIP, Socket } from 'net';
import os from 'node:os';
import zlib, { brotliCompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { performance as measured } from 'perf_hooks';
import { json, text } from 'stream/consumers';
import { TransformStream as WebTransform } from 'stream/web';
import { isMainThread } from 'worker_threads';
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import crypto, { createHash, createHmac, createSign, createVerify } from 'crypto';
import { EventEmitter, once } from 'node:events';
import path from 'node:path';
import querystring from 'node:querystring';
import Stream, { PassThrough, Readable, Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as delay } from 'node:timers/promises';
import url from 'node:url';
import util, { inherits, isDeepStrictEqual, promisify } from 'node:util';
import process from 'node:process';
import * as packages from 'packages';
import data from './data.bin';
import keys from './keys.json';
import statement from './statement.sql';
import { element } from './page.tsx';

const storage = new AsyncLocalStorage();

async function* numbers() {
  await delay(1);
  yield storage.getStore();
  await null;
  yield storage.getStore();
}

async function stores(ms) {
  const seen = [storage.getStore()];
  await delay(ms);
  seen.push(storage.getStore());
  for await (const number of numbers()) seen.push(number);
  await new Promise((resolve) => queueMicrotask(() => resolve(seen.push(storage.getStore()))));
  await new Promise((resolve) => process.nextTick(() => resolve(seen.push(storage.getStore()))));
  await fetch('data:,').then(() => seen.push(storage.getStore()));
  try {
    await Promise.reject(new Error());
  } catch {
    seen.push(storage.getStore());
  }
  return seen;
}

async function thrown(action) {
  try {
    await action();
  } catch (error) {
    return [error.code, error.message];
  }
  return 'nothing';
}

class Own {}
const methods = ['base64Slice', 'utf8Slice', 'ucs2Write', 'asciiWrite', 'readBigUint64LE', 'writeBigUint64BE', 'readUint8', 'swap16', 'equals'];
let loading;
try {
  createHash('sha1').digest();
} catch (error) {
  loading = error.message;
}

const checks = {
  async 'async-local-storage'() {
    const own = await Promise.all([3, 1, 2].map((ms) => storage.run(ms, () => stores(ms))));
    return [own, storage.getStore()];
  },
  async 'async-resource'() {
    const resource = storage.run('r', () => new AsyncResource('test'));
    const snapshot = storage.run('s', () => AsyncLocalStorage.snapshot());
    const bound = storage.run('b', () => AsyncResource.bind(() => storage.getStore()));
    storage.enterWith('e');
    await null;
    return [resource.runInAsyncScope(() => storage.getStore()), snapshot(() => storage.getStore()), bound(),
      storage.getStore(), storage.exit(() => storage.getStore() ?? null), storage.run(1, (x) => x, 'argument')];
  },
  async events() {
    class Own extends require('events') {}
    const emitter = new Own();
    setTimeout(() => emitter.emit('x', 5), 1);
    return [await once(emitter, 'x'), emitter instanceof EventEmitter];
  },
  async stream() {
    const upper = new Transform({ transform: (chunk, _, done) => done(null, String(chunk).toUpperCase()) });
    const sink = new PassThrough();
    const chunks = [];
    sink.on('data', (chunk) => chunks.push(String(chunk)));
    await pipeline(Readable.from(['a', 'b']), upper, sink);
    return chunks;
  },
  buffer: () => [
    Buffer.from('tea').toString('base64'), Buffer.from('746561', 'hex').toString(), Buffer.concat([Buffer.from('a'), Buffer.alloc(1)]).length,
    Buffer.from('x') instanceof Uint8Array, Buffer.byteLength('ü'), new StringDecoder('utf8').write(Buffer.from('é')),
  ],
  'buffer-encodings': () => [
    Buffer.from('ü?>').toString('base64url'), Buffer.from('w7w_Pg', 'base64url').toString(), Buffer.isEncoding('base64url'),
    Buffer.from('abc').latin1Slice(0, 2), Buffer.from('abc').hexSlice(), Buffer.alloc(2).latin1Write('ab'), Buffer.byteLength('YQ', 'base64url'),
    methods.filter((name) => typeof Buffer.prototype[name] !== 'function'),
  ],
  os: () => [os.EOL, os.platform(), os.cpus().length, os.constants.signals.SIGTERM, os.homedir()],
  files: async () => [existsSync('/a'), await thrown(() => files.readFile('/a')), await thrown(() => writeFileSync('/a', ''))],
  servers: () => thrown(() => createServer()),
  http: () => [http.METHODS.includes('GET'), http.STATUS_CODES[404], http.get.name],
  net: async () => [isIP('1.2.3.4'), isIP('fe80::1%a'), isIP('1.2.3'), (await thrown(() => new (class extends Socket {})()))[0]],
  zlib: async () => [
    gunzipSync(gzipSync('tea')).toString(), String(await promisify(zlib.inflateRaw)(await promisify(zlib.deflateRaw)('tea'))),
    zlib.crc32('tea'), zlib.constants.Z_BEST_SPEED, await thrown(() => brotliCompressSync('')),
  ],
  brotli: async () => {
    const data = Buffer.from('G8cA+KVBwsrohGgBgH8C', 'base64');
    const texts = [zlib.brotliDecompressSync(data), await promisify(zlib.brotliDecompress)(data), await text(Readable.from([data]).pipe(zlib.createBrotliDecompress()))];
    return [new Set(texts.map(String)).size, String(texts[0]).length, (await thrown(() => zlib.brotliDecompressSync(data.subarray(0, 6))))[0]];
  },
  'parse-args': async () => [
    util.parseArgs({
      args: ['-vn', '3', '--tag=a', '--tag', 'b', 'file', '--', '-x'], allowPositionals: true, tokens: true,
      options: { verbose: { type: 'boolean', short: 'v' }, number: { type: 'string', short: 'n' }, tag: { type: 'string', multiple: true }, size: { type: 'string', default: 's' } },
    }),
    await thrown(() => util.parseArgs({ args: ['--what'] })), await thrown(() => util.parseArgs({ args: ['what'] })),
  ],
  'web-streams': async () => [
    await text(Readable.fromWeb(new Response('tea').body)), await json(Readable.from(['{"a":', '1}'])),
    await new Response(Readable.toWeb(Readable.from([Buffer.from('tea')])).pipeThrough(new WebTransform())).text(),
    await new Promise((resolve) => Writable.fromWeb(new WritableStream({ write: (chunk) => resolve(String(chunk)) })).end('tea')),
  ],
  'legacy-stream': () => {
    function Old() { Stream.call(this); }
    inherits(Old, Stream);
    const old = new Old(), chunks = [];
    old.on('data', (chunk) => chunks.push(chunk));
    old.emit('data', 'tea');
    return [chunks, new Readable() instanceof Stream];
  },
  small: async () => [typeof measured.now(), isMainThread, (await thrown(() => createRequire('file:///a')('a')))[0]],
  'cloudflare-workers': async () => [env.PROGRAM, waitUntil(null) ?? null, (await thrown(() => new (class extends WorkerEntrypoint {})()))[0]],
  'web-assembly': async () => [
    (await thrown(() => WebAssembly.instantiate(new Uint8Array())))[1], (await thrown(() => new WebAssembly.Module()))[1], WebAssembly.validate(new Uint8Array()),
  ],
  caches: async () => [await caches.default.put('http://a/', new Response('tea')), await (await caches.open('a')).match('http://a/')].map((value) => value ?? null),
  'util-inspect': () => [
    util.inspect(new Map([[{ a: 1 }, new Set(['b'])]])), util.inspect([Symbol('a'), class A extends Own {}]), util.inspect({ a: { b: { c: { d: 1 } } } }),
    util.format('%o %s', { a: 1 }, 'tea'), util.inspect({ [util.inspect.custom]: () => 'own' }),
  ],
  path: () => [path.join('a', '..', 'b'), path.posix.basename('/x/y.js', '.js'), path.extname('a.txt')],
  url: () => [url.parse('http://a/b?c=1').query, url.fileURLToPath('file:///a/b'), querystring.parse('a=1&b=2')],
  async util() {
    const later = promisify((value, done) => done(null, value));
    function Base() {}
    function Derived() {}
    inherits(Derived, Base);
    return [await later(1), new Derived() instanceof Base, isDeepStrictEqual({ a: [1] }, { a: [1] }), isDeepStrictEqual([1], [2]),
      util.format('%s is %d', 'x', 2), util.types.isRegExp(/a/), util.isMissing === undefined];
  },
  assert: () => thrown(() => assert.deepStrictEqual({ a: 1 }, { a: 2 })).then(([code]) => code),
  process: () => [process === globalThis.process, process.cwd(), process.env.PROGRAM, typeof process.hrtime.bigint()],
  binding: () => thrown(() => process.binding('fs')),
  immediate: () => new Promise((resolve) => setImmediate(resolve, 'immediate')),
  packages: () => { const { text, map, none, condition } = packages; return { text, map, none, condition }; },
  'packages-without-page': async () => [packages.page(), packages.exported(), packages.asks(), (await thrown(packages.optional))[0], __dirname],
  'require-takes-main': () => require('text/dual'),
  'guarded-require': () => thrown(() => packages.requires()),
  'guarded-import': () => thrown(() => packages.imports()),
  promisify: async () => [await promisify(setTimeout)(1, 'tea'), await promisify(setImmediate)('milk')],
  'crypto-hashes': () => [
    createHash('sha256').update('t').update('ea').digest('hex'), createHash('MD5').update(Buffer.from('tea')).digest('base64'),
    createHmac('sha1', 'key').update('tea').digest('hex'), createHash('sha512').update('tea').copy().digest().length,
  ],
  'crypto-derivation': async () => [
    crypto.scryptSync('password', 'salt', 16, { N: 1024 }).toString('hex'),
    (await promisify(crypto.pbkdf2)('password', 'salt', 1000, 16, 'sha512')).toString('hex'),
    Buffer.from(crypto.hkdfSync('sha256', 'key', 'salt', 'info', 16)).toString('hex'),
    crypto.timingSafeEqual(Buffer.from('a'), Buffer.from('b')), crypto.randomBytes(70_000).length, crypto.randomInt(3, 4),
  ],
  'crypto-signatures': () => keys.map(({ hash, privateKey, publicKey, signature }) => {
    const own = createSign(hash).update('tea').sign(privateKey, 'base64');
    const verify = (text, of) => createVerify(hash).update(text).verify(publicKey, of, 'base64');
    return [verify('tea', own), verify('tea', signature), verify('coffee', signature)];
  }),
  'crypto-ciphers': () => ['aes-256-gcm', 'aes-128-cbc', 'aes-192-ctr'].map((name) => {
    const key = Buffer.alloc(name.slice(4, 7) / 8, 1), iv = Buffer.alloc(name.endsWith('gcm') ? 12 : 16);
    const cipher = crypto.createCipheriv(name, key, iv);
    const secret = cipher.update('tea', 'utf8', 'hex') + cipher.final('hex');
    const decipher = crypto.createDecipheriv(name, key, iv);
    if (name.endsWith('gcm')) decipher.setAuthTag(cipher.getAuthTag());
    return [secret.length / 2, decipher.update(secret, 'hex', 'utf8') + decipher.final('utf8')];
  }),
  'crypto-cipher-parts': () => [['aes-256-gcm', 12], ['aes-256-gcm', 16], ['aes-128-cbc', 16], ['aes-192-ctr', 16]].map(([name, size]) => {
    const key = Buffer.alloc(name.slice(4, 7) / 8, 1), iv = Buffer.alloc(size, 255);
    const cipher = crypto.createCipheriv(name, key, iv), decipher = crypto.createDecipheriv(name, key, iv);
    const parts = [...'tea'.repeat(20)].map((_, n) => cipher.update('x'.repeat(n), 'utf8')), secret = Buffer.concat([...parts, cipher.final()]);
    const tag = name.endsWith('gcm') ? cipher.getAuthTag() : Buffer.alloc(0);
    if (tag.length) decipher.setAuthTag(tag);
    const pieces = [secret.subarray(0, 37), secret.subarray(37)].map((piece) => decipher.update(piece));
    const plain = Buffer.concat([...pieces, decipher.final()]).toString();
    return [parts.map((part) => part.length).join(), createHash('sha256').update(secret).update(tag).digest('hex'), pieces.map((piece) => piece.length), plain.length];
  }),
  'crypto-cipher-unpadded': async () => {
    const options = ['aes-128-cbc', Buffer.alloc(16, 1), Buffer.alloc(16)];
    const cipher = crypto.createCipheriv(...options).setAutoPadding(false), decipher = crypto.createDecipheriv(...options).setAutoPadding(false);
    const secret = cipher.update('t'.repeat(32), 'utf8', 'hex') + cipher.final('hex');
    const wrong = crypto.createDecipheriv('aes-128-gcm', Buffer.alloc(16), Buffer.alloc(12)).setAuthTag(Buffer.alloc(16));
    return [
      secret.length, decipher.update(secret, 'hex', 'utf8') + decipher.final('utf8'), wrong.update('tea').length, Boolean((await thrown(() => wrong.final()))[1]),
      (await thrown(() => (cipher.ended = false, cipher.update('a'), cipher.final())))[0],
    ];
  },
  'crypto-agreement': async () => {
    const [own, other] = [crypto.createECDH('prime256v1'), crypto.createECDH('prime256v1')];
    own.setPrivateKey('05', 'hex');
    const compressed = own.getPublicKey('hex', 'compressed'), secret = own.computeSecret(other.generateKeys('hex', 'compressed'), 'hex');
    const { publicKey, privateKey } = await promisify(crypto.generateKeyPair)('x25519', {});
    return [
      compressed, own.getPrivateKey('hex').length, crypto.ECDH.convertKey(compressed, 'prime256v1', 'hex', 'hex').length,
      secret.equals(other.computeSecret(own.getPublicKey())), crypto.diffieHellman({ publicKey, privateKey }).length,
      await thrown(() => crypto.createECDH('secp256k1')), await thrown(() => own.computeSecret(Buffer.alloc(65))),
      await thrown(() => own.setPrivateKey(Buffer.alloc(32))), await thrown(() => crypto.createECDH('secp384r1').getPublicKey()),
    ];
  },
  'crypto-keys': () => {
    const options = { modulusLength: 2048, publicKeyEncoding: { type: 'spki', format: 'pem' }, privateKeyEncoding: { type: 'pkcs1', format: 'pem' } };
    const { publicKey, privateKey } = crypto.generateKeyPairSync('rsa', options);
    const signature = createSign('sha256').update('tea').sign(privateKey);
    return [
      crypto.createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }) === publicKey, privateKey.slice(0, 31),
      createVerify('sha256').update('tea').verify(privateKey, signature), crypto.createPublicKey(publicKey).export({ format: 'jwk' }).e,
      crypto.privateDecrypt(privateKey, crypto.publicEncrypt({ key: publicKey, oaepHash: 'sha1' }, Buffer.from('tea'))).toString(),
    ];
  },
  'crypto-errors': async () => [
    await thrown(() => createHash('whirlpool')), loading, await thrown(() => createSign('sha256').update('').sign('no key')),
    await thrown(() => new crypto.X509Certificate('')),
  ],
  'unicode-literals': () => [
    /^[\p{Lu}x][^\P{L}\d]+(\p{Script=Greek}|\p{Emoji})$/u.test('Übα'), /\p{Lu}/u.test('ü'), /\P{ASCII}/u.test('ü'),
    /[\p{L}--[a-z]]/v.test('A'), /[\p{L}--[a-z]]/v.test('a'), 'a-b'.replace(/[^\p{L}]/gu, ''), /\\p{L}/.test('\\p{L}'),
    new RegExp(`${/[\p{L}(]/u.source}|()`).exec('').length,
  ],
  'unicode-patterns': () => [
    new RegExp('^\\p{L}+$', 'u').test('äé'), RegExp('[\\p{L}-]', 'u').test('-'), 'a1b'.split(new RegExp('\\P{Letter}', 'u')),
    new RegExp(String.raw`\p{N}`, 'u').test('4'), new RegExp('x') instanceof RegExp, /a/.constructor === RegExp,
  ],
  normalize: () => ['e\u0301'.normalize('NFC').length, 'é'.normalize('NFD').length, 'ﬁ'.normalize('NFKC'), '한'.normalize('NFD').length],
  'url-pattern': () => new URLPattern({ pathname: '/users/:id(\\d+){/:action}?' }).exec('http://a.example/users/7/edit').pathname.groups,
  assets: () => [data instanceof Uint8Array, data.length, statement],
  jsx: () => element,
};

export default {
  async fetch(request) {
    return Response.json(await checks[new URL(request.url).pathname.slice(1)]());
  },
};
