// Byte streams: tee(), the option `min` of read(), and BYOB readers of bodies and blobs, which the engine lacks.
import { define, defineGetter } from './define.js';

const { getReader, tee: nativeTee } = ReadableStream.prototype;
const { prototype: readerPrototype } = ReadableStreamBYOBReader;
const { read: nativeRead } = readerPrototype;

function isByteStream(stream) {
  try {
    getReader.call(stream, { mode: 'byob' }).releaseLock();
    return true;
  } catch {
    return false;
  }
}

/** Return two byte streams with the chunks of one. The second has copies. */
function teeBytes(source) {
  const reader = source.getReader(), controllers = [], reasons = new Map();
  let reading = false, again = false, settle;
  const cancelled = new Promise((resolve) => (settle = resolve));
  const active = () => controllers.filter((_, index) => !reasons.has(index));

  async function pull() {
    if (reading) {
      again = true;
      return;
    }
    reading = true;
    try {
      do {
        again = false;
        const { done, value } = await reader.read();
        if (done) {
          for (const controller of active()) {
            controller.close();
            controller.byobRequest?.respond(0);
          }
          settle();
          return;
        }
        const chunks = active().map((_, index) => (index ? value.slice() : value)).reverse();
        for (const controller of active().reverse()) controller.enqueue(chunks.shift());
      } while (again);
    } catch {
      // `closed` has the error too.
    } finally {
      reading = false;
    }
  }
  function branch(index) {
    return new ReadableStream({
      type: 'bytes',
      start: (controller) => void (controllers[index] = controller),
      pull() { void pull(); },
      cancel(reason) {
        reasons.set(index, reason);
        if (reasons.size === 2) settle(reader.cancel([reasons.get(0), reasons.get(1)]));
        return cancelled;
      },
    });
  }
  reader.closed.catch((error) => {
    for (const controller of active()) controller.error(error);
    settle();
  });
  return [branch(0), branch(1)];
}

/** Read into a view until it has `min` elements or the stream ends. */
async function readAtLeast(reader, view, min) {
  const { constructor, byteOffset: begin } = view;
  const size = view.BYTES_PER_ELEMENT ?? 1, length = view.byteLength;
  let filled = 0, { buffer } = view;
  for (;;) {
    const { done, value } = await nativeRead.call(reader, new Uint8Array(buffer, begin + filled, length - filled));
    if (value === undefined) return { done, value };
    ({ buffer } = value);
    filled += value.byteLength;
    if (!done && filled < min * size) continue;
    if (done && filled % size) throw new TypeError('the stream ended within an element of the view');
    return { done: done && !filled, value: new constructor(buffer, begin, Math.floor(filled / size)) };
  }
}

/** Streams of bodies and blobs. Those of the engine are not byte streams. */
const bodies = new WeakSet();
/** The byte stream with the rest of a body that a BYOB reader has read. */
const rests = new WeakMap();

function marked(stream) {
  if (stream) bodies.add(stream);
  return stream;
}

for (const { prototype } of [Request, Response]) {
  const { get } = Object.getOwnPropertyDescriptor(prototype, 'body');
  defineGetter(prototype, 'body', function () { return marked(get.call(this)); });
}
const { stream: nativeStream } = Blob.prototype;
define(Blob.prototype, { stream() { return marked(nativeStream.call(this)); } });

/** Return a BYOB reader of the stream of a body, which stays locked until the reader is released. */
function readerOfBody(stream) {
  const reader = getReader.call(stream);
  let rest = rests.get(stream);
  if (!rest) {
    rest = { reader };
    rest.bytes = new ReadableStream({
      type: 'bytes',
      async pull(controller) {
        const { done, value } = await rest.reader.read();
        if (!done) return controller.enqueue(value);
        controller.close();
        controller.byobRequest?.respond(0);
      },
      cancel: (reason) => rest.reader.cancel(reason),
    });
    rests.set(stream, rest);
  }
  rest.reader = reader;
  const byob = getReader.call(rest.bytes, { mode: 'byob' });
  define(byob, {
    releaseLock() {
      readerPrototype.releaseLock.call(byob);
      reader.releaseLock();
    },
  });
  return byob;
}

define(ReadableStream.prototype, {
  getReader(options = undefined) {
    if (options?.mode === 'byob' && bodies.has(this) && !isByteStream(this)) return readerOfBody(this);
    return getReader.call(this, options);
  },
  tee() {
    if (this instanceof ReadableStream && !this.locked && isByteStream(this)) return teeBytes(this);
    return nativeTee.call(this);
  },
});
define(readerPrototype, {
  async read(view, options) {
    const min = options?.min;
    if (min === undefined || !ArrayBuffer.isView(view)) return nativeRead.call(this, view);
    const length = view.length ?? view.byteLength;
    if (!(min >= 1)) throw new TypeError('min is not a positive number');
    if (min > length) throw new RangeError('min is larger than the view');
    return min === 1 ? nativeRead.call(this, view) : readAtLeast(this, view, Math.floor(min));
  },
});
