// DecompressionStream of the format brotli, which fetch() uses for responses in `br`. The decoder needs the whole input.
import { decode } from '../brotli.js';

const NativeDecompressionStream = DecompressionStream;

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
