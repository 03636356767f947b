// node:zlib: that of @jspm/core, with its constants, crc32 and the decoder of brotli. The encoder is lacking.
const zlib = require('@jspm/core/nodelibs/zlib').default;
const { Buffer } = require('./buffer.cjs');

const TABLE = Uint32Array.from({ length: 256 }, (_, value) => {
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

function bytesOf(data) {
  return typeof data === 'string' ? Buffer.from(data) : new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength);
}

function brotliDecompressSync(data) {
  const parts = [];
  try {
    // Evaluated at the first call: the decoder has a dictionary of 120 kB.
    require('./brotli.js').decode(bytesOf(data), (part) => parts.push(part));
  } catch (cause) {
    throw Object.assign(new Error('Decompression failed', { cause }), { code: 'ERR__ERROR_FORMAT', errno: -2 });
  }
  return Buffer.concat(parts);
}

module.exports = {
  ...zlib,
  brotliDecompressSync,
  brotliDecompress: (data, ...rest) => queueMicrotask(() => {
    const done = rest.at(-1);
    try {
      data = brotliDecompressSync(data);
    } catch (error) {
      return done(error);
    }
    done(null, data);
  }),
  createBrotliDecompress() {
    const parts = [];
    return new (require('./stream.cjs').Transform)({
      transform: (chunk, _encoding, done) => done(void parts.push(chunk)),
      flush: (done) => module.exports.brotliDecompress(Buffer.concat(parts), done),
    });
  },
  constants: Object.fromEntries(Object.entries(zlib).filter(([name]) => name.startsWith('Z_'))),
  crc32(data, value = 0) {
    let rest = ~value;
    for (const byte of bytesOf(data)) rest = TABLE[(rest ^ byte) & 255] ^ (rest >>> 8);
    return ~rest >>> 0;
  },
};
