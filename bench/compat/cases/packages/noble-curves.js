// @noble/curves
import { ed25519, x25519 } from '@noble/curves/ed25519.js';
import { p256 } from '@noble/curves/nist.js';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { bytes, checks, hex } from '../checks.js';

const key = new Uint8Array(32).fill(5);

export default checks({
  'Ed25519': () => {
    const signature = ed25519.sign(bytes('tea'), key);
    return [hex(signature), ed25519.verify(signature, bytes('tea'), ed25519.getPublicKey(key))];
  },
  'P-256': () => hex(p256.sign(bytes('tea'), key)),
  'secp256k1': () => hex(secp256k1.getPublicKey(key)),
  'X25519': () => hex(x25519.getPublicKey(key)),
});
