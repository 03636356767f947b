// node:stream: that of @jspm/core, with conversions from and to streams of the web platform.
// The class Stream, from which old packages inherit; the default export of @jspm/core is Readable.
const stream = require('@jspm/core/nodelibs/stream').default.Stream;
const { Duplex, Readable, Writable } = stream;

/** Return what reads a ReadableStream, and cancels it if the reading ends early. */
async function* chunksOf(readable) {
  const reader = readable.getReader();
  let ended = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      ended = done;
      if (done) return;
      yield value;
    }
  } finally {
    if (!ended) await reader.cancel();
  }
}

Readable.fromWeb = (readable, options) => Readable.from(chunksOf(readable), { objectMode: false, ...options });
Readable.toWeb = (readable) => {
  const chunks = readable[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done) controller.close();
      else controller.enqueue(ArrayBuffer.isView(value) ? new Uint8Array(value) : value);
    },
    cancel: (reason) => void readable.destroy(reason),
  }, { highWaterMark: 0 });
};
Writable.fromWeb = (writable, options) => {
  const writer = writable.getWriter();
  const settle = (promise, done) => promise.then(() => done(), done);
  return new Writable({
    ...options,
    write: (chunk, _encoding, done) => settle(writer.write(chunk), done),
    final: (done) => settle(writer.close(), done),
    destroy: (error, done) => settle(error ? writer.abort(error) : Promise.resolve(), () => done(error)),
  });
};
Writable.toWeb = (writable) => new WritableStream({
  write: (chunk) => new Promise((resolve, reject) => writable.write(chunk, (error) => (error ? reject(error) : resolve()))),
  close: () => new Promise((resolve, reject) => writable.once('error', reject).end(resolve)),
  abort: (reason) => void writable.destroy(reason),
});
Duplex.toWeb = (duplex) => ({ readable: Readable.toWeb(duplex), writable: Writable.toWeb(duplex) });

module.exports = stream;
