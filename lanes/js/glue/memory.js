// Functions of the engine that end the program when an allocation fails, or return something else. Large allocations
// are tried beforehand, so that code can catch a RangeError.
import { compile, define } from './define.js';

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

const NativeBlob = Blob, NativeFile = File;
const { prototype: blobPrototype } = NativeBlob;
const { arrayBuffer: nativeArrayBuffer, slice: nativeSlice } = blobPrototype;
const { get: sizeOf } = Object.getOwnPropertyDescriptor(blobPrototype, 'size');

function partSize(part) {
  if (typeof part === 'string') return part.length;
  if (part instanceof ArrayBuffer || ArrayBuffer.isView(part)) return part.byteLength;
  return part instanceof NativeBlob ? sizeOf.call(part) : 0;
}

/** Return the parts of a large blob with large texts as bytes. Throws RangeError if the blob does not fit into memory. */
function checkedParts(name, parts, options) {
  let total = 0, capacity = 0, sizes = [];
  const checked = parts.map((part) => {
    const isText = typeof part === 'string' && part.length >= LARGE && options?.endings !== 'native';
    const value = isText ? new TextEncoder().encode(part) : part;
    total += partSize(value);
    if (total > capacity) {
      // The engine's buffer grows to a power of two, and exists twice while it is copied.
      const grown = 2 ** Math.ceil(Math.log2(total));
      sizes = [capacity, grown];
      capacity = grown;
    }
    return value;
  });
  svcReserve(name, ...sizes);
  return checked;
}

function isLarge(parts) {
  return Array.isArray(parts) && parts.reduce((sum, part) => sum + partSize(part), 0) >= LARGE;
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

for (const [name, at] of [['Blob', 1], ['File', 2]]) {
  checkConstructor(name, (args) => {
    const type = args[at]?.type;
    if (type?.length >= LARGE) svcReserve(name, type.length, type.length, type.length, type.length);
    if (isLarge(args[0])) args[0] = checkedParts(name, args[0], args[at]);
  });
}
if (Object.getPrototypeOf(NativeFile) === NativeBlob) Object.setPrototypeOf(NativeFile, Blob);

const { decode: nativeDecode } = TextDecoder.prototype;

/** Decode bytes piece by piece: the engine takes four times the memory of a piece. */
function decode(input = undefined, options = undefined) {
  if (!(input?.byteLength > PIECE)) return nativeDecode.apply(this, arguments);
  const { buffer, byteOffset, byteLength } = ArrayBuffer.isView(input) ? input : new Uint8Array(input);
  let text = '';
  try {
    for (let at = 0; at < byteLength; at += PIECE) {
      const piece = new Uint8Array(buffer, byteOffset + at, Math.min(PIECE, byteLength - at));
      svcReserve('decode()', 2 * PIECE, 2 * PIECE);
      text += nativeDecode.call(this, piece, at + PIECE < byteLength ? { stream: true } : options);
    }
    return text;
  } catch (error) {
    try {
      nativeDecode.call(this); // forgets the pieces
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
    if (text === '') return nativeEncode.call(this);
    const whole = `${text}`;
    svcReserve('encode()', whole.length);
    const bytes = nativeEncode.call(this, whole);
    if (whole && !bytes.length) throw new RangeError('encode(): the bytes do not fit into memory_limit_mb');
    return bytes;
  },
});

/** Return how many bytes slice() copies, 0 for arguments that are not numbers. */
function sliceLength(size, start = 0, end = size) {
  const place = (at) => (at < 0 ? Math.max(size + at, 0) : Math.min(at, size));
  const length = typeof start === 'number' && typeof end === 'number' ? place(end) - place(start) : 0;
  return Math.max(length, 0);
}

async function text() {
  return new TextDecoder().decode(await this.arrayBuffer());
}

define(blobPrototype, {
  async arrayBuffer() {
    svcReserve('arrayBuffer()', sizeOf.call(this));
    return nativeArrayBuffer.call(this);
  },
  async bytes() {
    svcReserve('bytes()', sizeOf.call(this));
    return new Uint8Array(await nativeArrayBuffer.call(this));
  },
  text,
  slice(...args) {
    svcReserve('slice()', sliceLength(sizeOf.call(this), ...args));
    return nativeSlice.apply(this, args);
  },
});

compile(svcReserve, isLarge, partSize, checkedParts, decode);
