// node:zlib: that of @jspm/core, with its constants and crc32. Brotli is lacking.
const zlib = require('@jspm/core/nodelibs/zlib').default;
const { Buffer } = require('./buffer.cjs');

const TABLE = Uint32Array.from({ length: 256 }, (_, value) => {
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

function bytesOf(data) {
  return typeof data === 'string' ? Buffer.from(data) : new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength);
}

module.exports = {
  ...zlib,
  constants: Object.fromEntries(Object.entries(zlib).filter(([name]) => name.startsWith('Z_'))),
  crc32(data, value = 0) {
    let rest = ~value;
    for (const byte of bytesOf(data)) rest = TABLE[(rest ^ byte) & 255] ^ (rest >>> 8);
    return ~rest >>> 0;
  },
};
