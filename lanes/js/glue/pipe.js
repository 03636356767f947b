// Piping of streams with an AbortSignal, which the engine refuses, and the abort signal of writable streams.
import { svcUsed } from './body.js';
import { define, defineGetter } from './define.js';

const { pipeThrough: nativePipeThrough, pipeTo: nativePipeTo } = ReadableStream.prototype;
const NativeWritableStream = WritableStream;

const { get: isAborted } = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted');

function checkSignal(signal) {
  try {
    isAborted.call(signal);
  } catch {
    throw new TypeError('the signal of a pipe is not an AbortSignal');
  }
}

/** Return the options of a pipe, each read once in the order of the standard. */
function pipeOptions(options) {
  if (options !== null && typeof options !== 'object' && options !== undefined) {
    throw new TypeError('the options of a pipe are not an object');
  }
  const { preventAbort, preventCancel, preventClose, signal } = options ?? {};
  if (signal !== undefined) checkSignal(signal);
  return { preventAbort: !!preventAbort, preventCancel: !!preventCancel, preventClose: !!preventClose, signal };
}

/** Pipe a stream until it ends or the signal is aborted. */
function pipe(source, destination, { preventAbort, preventCancel, preventClose, signal }) {
  const reader = source.getReader(), writer = destination.getWriter();
  let ending = false, readable = true, writable = true, writing = Promise.resolve();
  return new Promise((resolve, reject) => {
    async function end(action, failure) {
      if (ending) return;
      ending = true;
      for (let last; last !== writing;) await (last = writing).catch(() => {});
      try {
        await action?.();
      } catch (error) {
        failure = { error };
      }
      signal.removeEventListener('abort', abort);
      reader.releaseLock();
      writer.releaseLock();
      if (failure) reject(failure.error);
      else resolve();
    }
    async function cancel(reason) {
      try {
        await reader.cancel(reason);
      } catch (error) {
        // An errored stream rejects with its own error, which is not a failure of cancel().
        await reader.closed.then(() => { throw error; }, (own) => { if (own !== error) throw error; });
      }
    }
    function abort() {
      const error = signal.reason;
      end(async () => {
        const aborted = preventAbort || !writable ? undefined : writer.abort(error);
        const cancelled = preventCancel || !readable ? undefined : cancel(error);
        cancelled?.catch(() => {});
        await aborted;
        await cancelled;
      }, { error });
    }
    function step() {
      if (ending) return;
      writer.ready.then(async () => {
        if (ending) return;
        const { done, value } = await reader.read();
        if (done) return;
        writing = writer.write(value);
        writing.catch(() => {});
        step();
      }).catch(() => {}); // `closed` has the error too
    }
    if (signal.aborted) return abort();
    signal.addEventListener('abort', abort);
    reader.closed.then(
      () => {
        readable = false;
        end(preventClose ? undefined : () => writer.close());
      },
      (error) => {
        readable = false;
        end(preventAbort ? undefined : () => writer.abort(error), { error });
      },
    );
    writer.closed.then(
      () => {
        writable = false;
        const error = new TypeError('the destination of the pipe is closed');
        end(preventCancel ? undefined : () => reader.cancel(error), { error });
      },
      (error) => {
        writable = false;
        end(preventCancel ? undefined : () => reader.cancel(error), { error });
      },
    );
    step();
  });
}

function checkSource(source) {
  if (!(source instanceof ReadableStream)) throw new TypeError('the source of a pipe is not a ReadableStream');
}

function checkDestination(destination) {
  if (!(destination instanceof WritableStream)) throw new TypeError('the destination of a pipe is not a WritableStream');
}

function checkLocks(source, destination) {
  if (source.locked) throw new TypeError('the source of a pipe is locked');
  if (destination.locked) throw new TypeError('the destination of a pipe is locked');
}

define(ReadableStream.prototype, {
  async pipeTo(destination, options) {
    checkSource(this);
    checkDestination(destination);
    const { signal, ...others } = pipeOptions(options);
    checkLocks(this, destination);
    svcUsed(this);
    if (!signal) return nativePipeTo.call(this, destination, others);
    return pipe(this, destination, { signal, ...others });
  },
  pipeThrough(transform, options) {
    checkSource(this);
    const { readable } = transform ?? {};
    if (!(readable instanceof ReadableStream)) throw new TypeError('the readable of a transform is not a ReadableStream');
    const { writable } = transform;
    checkDestination(writable);
    const { signal, ...others } = pipeOptions(options);
    checkLocks(this, writable);
    svcUsed(this);
    if (!signal) return nativePipeThrough.call(this, { readable, writable }, others);
    pipe(this, writable, { signal, ...others }).catch(() => {});
    return readable;
  },
});

/** The AbortController of each stream and of its controller. */
const aborts = new WeakMap();
/** The stream of each writer. */
const streams = new WeakMap();

globalThis.WritableStream = new Proxy(NativeWritableStream, {
  construct(target, [sink, ...strategy], newTarget) {
    const abort = new AbortController();
    const get = (_, name) => {
      const method = sink?.[name];
      if (name !== 'start') return typeof method === 'function' ? (...args) => Reflect.apply(method, sink, args) : method;
      if (method !== undefined && typeof method !== 'function') return method;
      return (controller) => {
        aborts.set(controller, abort);
        return method && Reflect.apply(method, sink, [controller]);
      };
    };
    const observed = sink === undefined || (sink && typeof sink === 'object') ? new Proxy({}, { get }) : sink;
    const stream = Reflect.construct(target, [observed, ...strategy], newTarget === WritableStream ? target : newTarget);
    aborts.set(stream, abort);
    return stream;
  },
});

const { prototype } = NativeWritableStream;
prototype.constructor = WritableStream;
let controllerPrototype;
const writerPrototype = Object.getPrototypeOf(new NativeWritableStream({
  start: (controller) => void (controllerPrototype = Object.getPrototypeOf(controller)),
}).getWriter());
const { abort: nativeAbort, getWriter: nativeGetWriter } = prototype;
const { abort: nativeAbortWriter } = writerPrototype;

/** Abort the signal of a stream that did not end. */
function signalAbort(stream, writer, reason) {
  if (stream && writer.desiredSize !== null) aborts.get(stream)?.abort(reason);
}

defineGetter(controllerPrototype, 'signal', function () { return aborts.get(this)?.signal; });
define(prototype, {
  getWriter() {
    const writer = nativeGetWriter.call(this);
    streams.set(writer, this);
    return writer;
  },
  abort(reason = undefined) {
    if (aborts.has(this) && !this.locked) {
      const writer = nativeGetWriter.call(this);
      signalAbort(this, writer, reason);
      writer.releaseLock();
    }
    return nativeAbort.call(this, reason);
  },
});
define(writerPrototype, {
  abort(reason = undefined) {
    if (streams.get(this)?.locked) {
      try {
        signalAbort(streams.get(this), this, reason);
      } catch {
        // A writer without a lock rejects.
      }
    }
    return nativeAbortWriter.call(this, reason);
  },
});
