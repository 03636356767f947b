// Functions of the engine that end the program when an allocation fails, or return something else. Large allocations
// are tried beforehand, so that code can catch a RangeError.
import { compile, define } from './define.js';
import { apply, makePermanent } from './intrinsics.js';

/** The number of bytes from which an allocation is tried. */
export const LARGE = 1 << 20;
const PIECE = 256 << 10;

/** Throw RangeError if memory does not have room for buffers of `sizes` bytes at once. */
export function svcReserve(name, ...sizes) {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (!(total >= LARGE)) return;
  const buffers = [];
  try {
    for (const size of sizes) buffers.push(new ArrayBuffer(size));
  } catch {
    throw new RangeError(`${name}: ${Math.ceil(total / LARGE)} MiB more do not fit into memory_limit_mb`);
  } finally {
    for (const buffer of buffers) buffer.transfer(0); // frees it at once
  }
}

/** Return whether an error is lack of memory, for which the engine throws a text. */
export function isLack(error) {
  return error instanceof RangeError || error === 'out of memory';
}

/** Replace a global class by one whose constructor calls `check(args)` first, which may replace arguments. */
export function checkConstructor(name, check) {
  const Native = globalThis[name];
  const checking = new Proxy(Native, {
    construct(target, args, newTarget) {
      check(args);
      return Reflect.construct(target, args, newTarget === checking ? target : newTarget);
    },
  });
  Native.prototype.constructor = checking;
  define(globalThis, { [name]: checking });
}

const { decode: nativeDecode } = TextDecoder.prototype;

/** Decode bytes piece by piece: the engine takes four times the memory of a piece. */
function decode(input = undefined, options = undefined) {
  if (!(input?.byteLength > PIECE)) return apply(nativeDecode, this, arguments);
  const { buffer, byteOffset, byteLength } = ArrayBuffer.isView(input) ? input : new Uint8Array(input);
  let text = '';
  try {
    for (let at = 0; at < byteLength; at += PIECE) {
      const piece = new Uint8Array(buffer, byteOffset + at, Math.min(PIECE, byteLength - at));
      svcReserve('decode()', 2 * PIECE, 2 * PIECE);
      text += apply(nativeDecode, this, [piece, at + PIECE < byteLength ? { stream: true } : options]);
    }
    return text;
  } catch (error) {
    try {
      apply(nativeDecode, this, []); // forgets the pieces
    } catch {
      // The first error is the one to report.
    }
    throw error;
  }
}

const { encode: nativeEncode } = TextEncoder.prototype;

define(TextDecoder.prototype, { decode });
define(TextEncoder.prototype, {
  encode(text = '') {
    if (text === '') return apply(nativeEncode, this, []);
    const whole = `${text}`;
    svcReserve('encode()', whole.length);
    const bytes = apply(nativeEncode, this, [whole]);
    if (whole && !bytes.length) throw new RangeError('encode(): the bytes do not fit into memory_limit_mb');
    return bytes;
  },
});

makePermanent(TextDecoder.prototype, 'decode');
makePermanent(TextEncoder.prototype, 'encode', 'encodeInto');
compile(svcReserve, decode);
