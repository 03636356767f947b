// Reading of whole bodies. Where memory runs out, the engine's functions never settle their promise. So large bodies,
// and those of unknown length, are read here.
import { Pieces } from './blob.js';
import { compile, define } from './define.js';
import { LARGE, svcReserve } from './memory.js';

/** Streams that were read or piped here, which the engine does not count as used. */
let used;

export function svcUsed(stream) {
  (used ??= new WeakSet()).add(stream);
}

/** Return whether the stream that `body` returns for a message was read or piped here. */
export function svcWasUsed(message, body) {
  return used !== undefined && used.has(body.call(message));
}

/** Return whether a message has a content-length below 1 MiB. */
export function isSmall(length) {
  return length !== null && length !== undefined && +length < LARGE;
}

const NativeResponse = Response;
/** Memory is tried once per `STEP` bytes. A byte takes several of memory until garbage is collected. */
const STEP = 512 << 10;
const ROOM = 3 << 20;

/**
 * Pass each chunk of a body to `take`. Throws TypeError if the body was used or is not bytes, RangeError if memory
 * runs out, and the errors of the stream and of `take`.
 */
export async function svcRead(message, name, take) {
  const { body } = message;
  if (message.bodyUsed) throw new TypeError(`${name}(): the body is already used`);
  if (!body) return;
  new NativeResponse(body); // throws TypeError for a stream that is locked or was read
  const reader = body.getReader();
  svcUsed(body);
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      if (!(value instanceof Uint8Array)) {
        throw new TypeError(`${name}(): a chunk of the body is a ${typeof value}, not a Uint8Array`);
      }
      size += value.byteLength;
      if (size >= STEP) {
        svcReserve(`${name}()`, ROOM);
        size = 0;
      }
      take(value);
    }
  } catch (error) {
    reader.cancel(error).catch(() => {});
    throw error;
  }
}

/** Return the chunks of a body. */
export async function svcChunks(message, name) {
  const chunks = [];
  await svcRead(message, name, (chunk) => void chunks.push(chunk));
  return chunks;
}

/** Return chunks as one buffer. Throws RangeError if it does not fit into memory. */
function joined(chunks, name) {
  const size = chunks.reduce((sum, { byteLength }) => sum + byteLength, 0);
  svcReserve(`${name}()`, size);
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes.buffer;
}

/** Return a body as one buffer. It is as large as the content-length says; the rest of a longer body is added. */
async function bufferOf(message, length) {
  if (!(length >= LARGE)) return joined(await svcChunks(message, 'arrayBuffer'), 'arrayBuffer');
  svcReserve('arrayBuffer()', +length);
  const bytes = new Uint8Array(+length), rest = [];
  let at = 0;
  await svcRead(message, 'arrayBuffer', (chunk) => {
    if (rest.length || at + chunk.length > bytes.length) return void rest.push(chunk);
    bytes.set(chunk, at);
    at += chunk.length;
  });
  return !rest.length && at === bytes.length ? bytes.buffer : joined([bytes.subarray(0, at), ...rest], 'arrayBuffer');
}

async function textOf(message, name) {
  const decoder = new TextDecoder();
  let text = '';
  await svcRead(message, name, (chunk) => void (text += decoder.decode(chunk, { stream: true })));
  return text + decoder.decode();
}

/** Functions that read a body; `small` returns the bytes of a small one, for which the engine's function is faster. */
const READ = {
  arrayBuffer: (message, length, small) => small?.() ?? bufferOf(message, length),
  json: async (message, length, small) => JSON.parse(await READ.text(message, length, small, 'json')),
  // The engine decodes other bytes than UTF-8 to an error, and does not remove a byte order mark.
  text: async (message, length, small, name = 'text') =>
    small ? new TextDecoder().decode(await small()) : textOf(message, name),
};

/** Define the functions that read a body; `length` returns the content-length of a message as text, or null. */
export function svcDefineReading(prototype, length) {
  const { arrayBuffer: bytesOf } = prototype;
  for (const name of Object.keys(READ)) {
    const native = prototype[name], read = READ[name];
    define(prototype, {
      [name]() {
        if (!prototype.isPrototypeOf(this)) return native.call(this);
        const known = length(this);
        return read(this, known, isSmall(known) ? () => bytesOf.call(this) : undefined);
      },
    });
  }
  define(prototype, {
    async bytes() { return new Uint8Array(await this.arrayBuffer()); },
    async blob() {
      const type = this.headers.get('content-type') ?? '';
      if (isSmall(length(this))) return new Blob([await this.arrayBuffer()], { type });
      const pieces = new Pieces();
      await svcRead(this, 'blob', (chunk) => pieces.add('blob()', chunk));
      return pieces.blob({ type });
    },
  });
}

compile(svcRead, svcChunks, joined, textOf, isSmall, svcWasUsed);
