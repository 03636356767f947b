// What the Streams and Encoding standards define and the engine lacks.
import { define, defineMissing } from './define.js';

async function* iterate(stream, preventCancel) {
  const reader = stream.getReader();
  let complete = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        complete = true;
        return;
      }
      yield value;
    }
  } catch (error) {
    complete = true;
    throw error;
  } finally {
    if (!complete && !preventCancel) await reader.cancel();
    reader.releaseLock();
  }
}

function values({ preventCancel = false } = {}) {
  return iterate(this, preventCancel);
}

function from(iterable) {
  const method = iterable?.[Symbol.asyncIterator] ?? iterable?.[Symbol.iterator];
  if (typeof method !== 'function') throw new TypeError('ReadableStream.from: the argument is not iterable');
  const iterator = method.call(iterable);
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(await value);
    },
    async cancel(reason) {
      await iterator.return?.(reason);
    },
  }, { highWaterMark: 0 });
}

class TransformPair {
  #transform;
  constructor(transformer) { this.#transform = new TransformStream(transformer); }
  get readable() { return this.#transform.readable; }
  get writable() { return this.#transform.writable; }
}

class TextEncoderStream extends TransformPair {
  constructor() {
    const encoder = new TextEncoder();
    let high = ''; // a high surrogate at the end of a chunk; the next one may begin with the low one
    super({
      transform(chunk, controller) {
        let text = high + chunk;
        high = '';
        if (/[\ud800-\udbff]$/.test(text)) {
          high = text.slice(-1);
          text = text.slice(0, -1);
        }
        if (text) controller.enqueue(encoder.encode(text));
      },
      flush(controller) {
        if (high) controller.enqueue(encoder.encode(high));
      },
    });
  }
  get encoding() { return 'utf-8'; }
}

class TextDecoderStream extends TransformPair {
  #decoder;
  constructor(label, options) {
    const decoder = new TextDecoder(label, options);
    super({
      transform(chunk, controller) {
        const text = decoder.decode(chunk, { stream: true });
        if (text) controller.enqueue(text);
      },
      flush(controller) {
        const text = decoder.decode();
        if (text) controller.enqueue(text);
      },
    });
    this.#decoder = decoder;
  }
  get encoding() { return this.#decoder.encoding; }
  get fatal() { return this.#decoder.fatal; }
  get ignoreBOM() { return this.#decoder.ignoreBOM; }
}

function classOf(instance) { return Object.getPrototypeOf(instance).constructor; }

let writableController, transformController;
const writable = new WritableStream({ start(controller) { writableController = controller; } });
new TransformStream({ start(controller) { transformController = controller; } });

defineMissing(ReadableStream, { from });
define(ReadableStream.prototype, { values, [Symbol.asyncIterator]: values });
defineMissing(globalThis, {
  TextEncoderStream,
  TextDecoderStream,
  TransformStreamDefaultController: classOf(transformController),
  WritableStreamDefaultController: classOf(writableController),
  WritableStreamDefaultWriter: classOf(writable.getWriter()),
});
