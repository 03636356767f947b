// @noble/hashes
import { argon2id } from '@noble/hashes/argon2.js';
import { blake3 } from '@noble/hashes/blake3.js';
import { hmac } from '@noble/hashes/hmac.js';
import { pbkdf2 } from '@noble/hashes/pbkdf2.js';
import { scrypt } from '@noble/hashes/scrypt.js';
import { sha256, sha512 } from '@noble/hashes/sha2.js';
import { sha3_256 } from '@noble/hashes/sha3.js';
import { bytes, checks, hex } from '../checks.js';

const text = bytes('tea');

export default checks({
  'hashes': () => [sha256, sha512, sha3_256, blake3].map((hash) => hex(hash(text))),
  'HMAC': () => hex(hmac(sha256, bytes('key'), text)),
  'derivation': () => [hex(pbkdf2(sha256, text, text, { c: 20, dkLen: 16 })), hex(scrypt(text, text, { N: 16, r: 8, p: 1, dkLen: 16 }))],
  'argon2': () => hex(argon2id(text, bytes('saltsalt'), { t: 1, m: 8, p: 1 })),
});
