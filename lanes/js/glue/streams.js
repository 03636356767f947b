// What the Streams and Encoding standards define and the engine lacks.
import { define, defineMissing } from './define.js';

const { cancel, read, releaseLock } = ReadableStreamDefaultReader.prototype;
const AsyncIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf((async function* () {}).prototype));

/** The iterator of a stream. Its calls run one after the other. */
class StreamIterator {
  #reader;
  #preventCancel;
  #ongoing;
  #done = false;

  constructor(reader, preventCancel) {
    this.#reader = reader;
    this.#preventCancel = preventCancel;
  }

  #then(step) {
    const result = this.#ongoing ? this.#ongoing.then(step, step) : step();
    const end = () => {
      if (this.#ongoing === result) this.#ongoing = undefined;
    };
    this.#ongoing = result;
    result.then(end, end);
    return result;
  }

  #release() {
    this.#done = true;
    releaseLock.call(this.#reader);
  }

  next() {
    return this.#then(async () => {
      if (this.#done) return { done: true, value: undefined };
      try {
        const { done, value } = await read.call(this.#reader);
        if (done) this.#release();
        return { done, value };
      } catch (error) {
        this.#release();
        throw error;
      }
    });
  }

  return(value) {
    return this.#then(async () => {
      if (!this.#done) {
        const canceled = this.#preventCancel ? undefined : cancel.call(this.#reader, value);
        this.#release();
        await canceled;
      }
      return { done: true, value };
    });
  }
}
const { next: iteratorNext, return: iteratorReturn } = StreamIterator.prototype;
Object.setPrototypeOf(StreamIterator.prototype, AsyncIteratorPrototype);
delete StreamIterator.prototype.constructor;
for (const [name, value] of Object.entries({ next: iteratorNext, return: iteratorReturn })) {
  Object.defineProperty(StreamIterator.prototype, name, { value, writable: true, enumerable: true, configurable: true });
}

const { getReader } = ReadableStream.prototype;

function values({ preventCancel = false } = {}) {
  return new StreamIterator(getReader.call(this), preventCancel);
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
        if (chunk === undefined) throw new TypeError('TextDecoderStream: a chunk is undefined, not bytes');
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
