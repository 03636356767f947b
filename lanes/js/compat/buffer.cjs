// node:buffer: that of @jspm/core, with what the web platform has already.
const buffer = require('@jspm/core/nodelibs/buffer').default;

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
