// tweetnacl
import nacl from 'tweetnacl';
import { bytes, checks, hex } from '../checks.js';

const seed = new Uint8Array(32).fill(3);

export default checks({
  'sign': () => hex(nacl.sign.detached(bytes('tea'), nacl.sign.keyPair.fromSeed(seed).secretKey)),
  'secretbox': () => {
    const box = nacl.secretbox(bytes('tea'), new Uint8Array(24), seed);
    return [hex(box), hex(nacl.secretbox.open(box, new Uint8Array(24), seed))];
  },
  'random': () => [nacl.randomBytes(16).length, nacl.box.keyPair().publicKey.length],
});
