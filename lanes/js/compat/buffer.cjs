// node:buffer: that of @jspm/core, with what later versions of Node.js and the web platform have.
const buffer = require('@jspm/core/nodelibs/buffer').default;

const { Buffer } = buffer;
const { from, byteLength, isEncoding } = Buffer;
const { toString, write } = Buffer.prototype;
const isUrl = (encoding) => typeof encoding === 'string' && encoding.toLowerCase() === 'base64url';
/** Return arguments with the encoding base64url replaced: the decoder of base64 takes both alphabets. */
const decodable = (values) => values.map((value) => (isUrl(value) ? 'base64' : value));

Object.assign(Buffer, {
  from: (value, ...rest) => from.call(Buffer, value, ...decodable(rest)),
  byteLength: (value, encoding) => byteLength(value, ...decodable([encoding])),
  isEncoding: (encoding) => isUrl(encoding) || isEncoding(encoding),
  copyBytesFrom(view, offset = 0, length = view.length - offset) {
    const { buffer: bytes, byteOffset, byteLength: size } = view.subarray(offset, offset + length);
    return Buffer.from(new Uint8Array(bytes, byteOffset, size));
  },
});
Object.assign(Buffer.prototype, {
  toString(encoding, ...range) {
    if (!isUrl(encoding)) return toString.call(this, encoding, ...range);
    return toString.call(this, 'base64', ...range).replace(/=+$/, '').replaceAll('+', '-').replaceAll('/', '_');
  },
  write(text, ...rest) { return write.call(this, text, ...decodable(rest)); },
});
for (const encoding of ['ascii', 'base64', 'base64url', 'hex', 'latin1', 'ucs2', 'utf8']) {
  Buffer.prototype[`${encoding}Slice`] = function slice(start, end) { return this.toString(encoding, start, end); };
  Buffer.prototype[`${encoding}Write`] = function put(text, offset = 0, length = this.length - offset) {
    return this.write(text, offset, length, encoding);
  };
}
for (const name of ['readBigUInt64LE', 'readBigUInt64BE', 'writeBigUInt64LE', 'writeBigUInt64BE']) {
  Buffer.prototype[name.replace('UInt', 'Uint')] = Buffer.prototype[name];
}

function decodes(bytes, fatal) {
  try {
    new TextDecoder('utf-8', { fatal }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

module.exports = {
  ...buffer,
  Blob, File, atob, btoa,
  constants: { MAX_LENGTH: buffer.kMaxLength, MAX_STRING_LENGTH: 2 ** 30 - 2 },
  isAscii: (bytes) => new Uint8Array(bytes.buffer ?? bytes).every((byte) => byte < 128),
  isUtf8: (bytes) => decodes(bytes, true),
};
