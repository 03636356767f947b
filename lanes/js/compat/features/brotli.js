// DecompressionStream of the format brotli, which fetch() uses for responses in `br`. The decoder needs the whole input.
import { BrotliDecompress } from 'svc:brotli';

const MAX_BYTES = 64 << 20;
const NativeDecompressionStream = DecompressionStream;

/** Pass the decoded bytes of compressed ones to `write`, in pieces. Throws TypeError. */
function decode(bytes, write) {
  let position = 0, size = 0;
  const input = {
    read(target, at, count) {
      const part = bytes.subarray(position, position + count);
      target.set(part, at);
      position += part.length;
      return part.length;
    },
  };
  const output = {
    buffer: { length: Infinity },
    write(ring, count) {
      size += count;
      if (size > MAX_BYTES) throw new Error(`the decoded data has more than ${MAX_BYTES >> 20} MiB`);
      if (count) write(ring.slice(0, count));
      return count;
    },
  };
  try {
    BrotliDecompress(input, output);
  } catch (error) {
    throw new TypeError(`brotli: ${error.message}`, { cause: error });
  }
}

function bytesOf(chunk) {
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk.slice(0));
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength).slice();
  throw new TypeError('brotli: a chunk is not an ArrayBuffer or a view of one');
}

function brotliStream() {
  const chunks = [];
  return new TransformStream({
    transform: (chunk) => void chunks.push(bytesOf(chunk)),
    async flush(controller) {
      decode(new Uint8Array(await new Blob(chunks).arrayBuffer()), (piece) => controller.enqueue(piece));
    },
  });
}

globalThis.DecompressionStream = new Proxy(NativeDecompressionStream, {
  construct(target, args, newTarget) {
    const constructor = newTarget === DecompressionStream ? target : newTarget;
    if (String(args[0]) !== 'brotli') return Reflect.construct(target, args, constructor);
    const { readable, writable } = brotliStream();
    return Object.create(constructor.prototype, { readable: { value: readable }, writable: { value: writable } });
  },
});
NativeDecompressionStream.prototype.constructor = DecompressionStream;
