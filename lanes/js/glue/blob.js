// Blobs of 1 MiB and more. The engine copies a blob into a buffer of twice its size, once more for each slice, and reads
// it in pieces of 8 KiB. Here a large blob is an empty one of the engine with a list of bytes, which its slices and the
// blobs made of it share.
import { compile, define, defineGetter } from './define.js';
import { LARGE, svcReserve } from './memory.js';

const NativeBlob = Blob, NativeFile = File;
const { prototype } = NativeBlob;
const { arrayBuffer: nativeArrayBuffer, slice: nativeSlice } = prototype;
const { get: nativeSize } = Object.getOwnPropertyDescriptor(prototype, 'size');
/** Bytes of a chunk of stream(). Smaller parts of a blob are joined to blocks of this size. */
const PIECE = 64 << 10;

/** By large blob: its size and its chunks, which are Uint8Arrays that do not change, or small blobs of the engine. */
const lists = new WeakMap();
let begun = false;

function sizeOf(blob) {
  return lists.get(blob)?.size ?? nativeSize.call(blob);
}

/** Collects copies of the parts of a blob. */
export class Pieces {
  chunks = [];
  size = 0;
  #block;
  #filled = 0;

  /** Add a copy of bytes. Throws RangeError if it does not fit into memory. */
  add(name, bytes) {
    const { length } = bytes;
    this.size += length;
    if (length >= PIECE) {
      svcReserve(name, length);
      this.#close();
      this.chunks.push(new Uint8Array(bytes));
      return;
    }
    if (this.#filled + length > PIECE) this.#close();
    this.#block ??= new Uint8Array(PIECE);
    this.#block.set(bytes, this.#filled);
    this.#filled += length;
  }

  /** Add a blob, whose bytes are shared. */
  addBlob(blob) {
    this.#close();
    const size = sizeOf(blob);
    if (size) this.chunks.push(...(lists.get(blob)?.chunks ?? [blob]));
    this.size += size;
  }

  #close() {
    if (this.#filled) this.chunks.push(this.#filled < PIECE ? this.#block.slice(0, this.#filled) : this.#block);
    this.#block = undefined;
    this.#filled = 0;
  }

  /** Return the blob of the parts. */
  blob(options) {
    this.#close();
    return this.size < LARGE ? new NativeBlob(this.chunks, options) : created(new NativeBlob([], options), this.chunks, this.size);
  }

  /** Make an empty blob the large one of the parts. */
  fill(blob) {
    this.#close();
    return created(blob, this.chunks, this.size);
  }
}

function created(blob, chunks, size) {
  lists.set(blob, { chunks, size });
  begun = true;
  return blob;
}

function partSize(part) {
  if (typeof part === 'string') return part.length;
  if (part instanceof ArrayBuffer || ArrayBuffer.isView(part)) return part.byteLength;
  return part instanceof NativeBlob ? sizeOf(part) : 0;
}

function isLarge(parts) {
  return Array.isArray(parts) && parts.reduce((sum, part) => sum + partSize(part), 0) >= LARGE;
}

/** Return the parts of a large blob. Throws RangeError if they do not fit into memory. */
function piecesOf(name, parts, options) {
  const pieces = new Pieces(), encoder = new TextEncoder();
  const isNative = options?.endings === 'native';
  for (const part of parts) {
    if (part instanceof NativeBlob) {
      pieces.addBlob(part);
    } else if (part instanceof ArrayBuffer) {
      pieces.add(name, new Uint8Array(part));
    } else if (ArrayBuffer.isView(part)) {
      pieces.add(name, new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
    } else {
      const text = `${part}`;
      pieces.add(name, encoder.encode(isNative ? text.replace(/\r\n?/g, '\n') : text));
    }
  }
  return pieces;
}

for (const [name, at] of [['Blob', 1], ['File', 2]]) {
  const Native = globalThis[name];
  const Replaced = new Proxy(Native, {
    construct(target, args, newTarget) {
      // Not read: a getter would run before the engine reads the parts.
      const type = Object.getOwnPropertyDescriptor(args[at] ?? {}, 'type')?.value;
      if (type?.length >= LARGE) svcReserve(name, type.length, type.length, type.length, type.length);
      const pieces = isLarge(args[0]) ? piecesOf(name, args[0], args[at]) : undefined;
      if (pieces) args[0] = [];
      const blob = Reflect.construct(target, args, newTarget === Replaced ? target : newTarget);
      return pieces ? pieces.fill(blob) : blob;
    },
  });
  Native.prototype.constructor = Replaced;
  define(globalThis, { [name]: Replaced });
}
if (Object.getPrototypeOf(NativeFile) === NativeBlob) Object.setPrototypeOf(NativeFile, Blob);

async function bytesOf(chunk) {
  return chunk instanceof Uint8Array ? chunk : new Uint8Array(await nativeArrayBuffer.call(chunk));
}

async function arrayBufferOf({ chunks, size }, name) {
  svcReserve(name, size);
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    const piece = await bytesOf(chunk);
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes.buffer;
}

async function textOf({ chunks }) {
  const decoder = new TextDecoder();
  let text = '';
  for (const chunk of chunks) text += decoder.decode(await bytesOf(chunk), { stream: true });
  return text + decoder.decode();
}

/** Return a stream of copies of the chunks. */
function streamOf({ chunks }) {
  let index = 0, at = 0, bytes;
  return new ReadableStream({
    async pull(controller) {
      bytes ??= index < chunks.length ? await bytesOf(chunks[index]) : undefined;
      if (!bytes) return controller.close();
      svcReserve('stream()', PIECE);
      controller.enqueue(bytes.slice(at, at + PIECE));
      at += PIECE;
      if (at < bytes.length) return;
      index++;
      at = 0;
      bytes = undefined;
    },
  }, { highWaterMark: 0 });
}

/** Return a place within a blob for an argument of slice(). */
function placeOf(value, size) {
  const place = Math.trunc(+value) || 0;
  return place < 0 ? Math.max(size + place, 0) : Math.min(place, size);
}

function sliceOf({ chunks, size }, start = 0, end = size, type = '') {
  const from = placeOf(start, size), to = Math.max(placeOf(end, size), from), shared = [];
  let at = 0;
  for (const chunk of chunks) {
    const length = chunk instanceof Uint8Array ? chunk.length : nativeSize.call(chunk);
    const first = Math.max(from - at, 0), last = Math.min(to - at, length);
    if (first < last) shared.push(chunk instanceof Uint8Array ? chunk.subarray(first, last) : nativeSlice.call(chunk, first, last));
    at += length;
  }
  const options = { type: `${type}` };
  return to - from < LARGE ? new NativeBlob(shared, options) : created(new NativeBlob([], options), shared, to - from);
}

const { bytes: nativeBytes, stream: nativeStream, text: nativeText } = prototype;

define(prototype, {
  async arrayBuffer() {
    const list = lists.get(this);
    return list ? arrayBufferOf(list, 'arrayBuffer()') : nativeArrayBuffer.call(this);
  },
  async bytes() {
    const list = lists.get(this);
    return list ? new Uint8Array(await arrayBufferOf(list, 'bytes()')) : nativeBytes.call(this);
  },
  async text() {
    const list = lists.get(this);
    return list ? textOf(list) : nativeText.call(this);
  },
  stream() {
    const list = lists.get(this);
    return list ? streamOf(list) : nativeStream.call(this);
  },
  slice(...args) {
    const list = lists.get(this);
    return list ? sliceOf(list, ...args) : nativeSlice.apply(this, args);
  },
});
defineGetter(prototype, 'size', function () { return sizeOf(this); });

/** Return whether there was a large blob. */
export function svcHasLargeBlobs() {
  return begun;
}

/** Return whether a value is a large blob. */
export function svcIsLargeBlob(value) {
  return begun && lists.has(value);
}

/** Return a copy of a large blob or file. */
export function svcCopied(blob) {
  const { type } = blob;
  if (!(blob instanceof NativeFile)) return new Blob([blob], { type });
  return new File([blob], blob.name, { type, lastModified: blob.lastModified });
}

/** Return the headers of a message with a large blob as body; `names` are those that the blob may add. */
export function svcBlobHeaders(headers, blob, names = ['content-type', 'content-length']) {
  const result = new Headers(headers), values = { 'content-type': blob.type, 'content-length': String(blob.size) };
  for (const name of names) if (values[name] && !result.has(name)) result.set(name, values[name]);
  return result;
}

compile(isLarge, partSize, sizeOf, svcIsLargeBlob);
