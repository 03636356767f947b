// streams
import { bytes, checks, collect, equal, hex, thrown } from '../checks.js';

function stream(...chunks) {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

export default checks({
  'ReadableStream.from': async () => equal(await collect(ReadableStream.from([1, Promise.resolve(2)])), [1, 2]),
  'iteration cancels': async () => {
    let reason = 'not cancelled';
    const source = new ReadableStream({ pull: (controller) => controller.enqueue(1), cancel: () => void (reason = 'cancelled') });
    for await (const chunk of source) if (chunk) break;
    equal([reason, source.locked], ['cancelled', false]);
  },
  'tee': async () => equal(await Promise.all(stream(1, 2).tee().map(collect)), [[1, 2], [1, 2]]),
  'pipeTo': async () => {
    const seen = [];
    await stream(1, 2).pipeTo(new WritableStream({ write: (chunk) => void seen.push(chunk), close: () => void seen.push('closed') }));
    equal(seen, [1, 2, 'closed']);
  },
  'pipeThrough': async () => equal(await collect(stream(1, 2).pipeThrough(new TransformStream({
    transform: (chunk, controller) => controller.enqueue(chunk * 2), flush: (controller) => controller.enqueue('end'),
  }))), [2, 4, 'end']),
  'errors': async () => {
    const source = new ReadableStream({ start: (controller) => controller.error(new RangeError('no')) });
    equal(await thrown(() => source.pipeTo(new WritableStream())), 'RangeError');
  },
  'BYOB reader': async () => {
    const source = new ReadableStream({ type: 'bytes', pull: (controller) => controller.enqueue(bytes('tea')) });
    const { value } = await source.getReader({ mode: 'byob' }).read(new Uint8Array(2));
    equal(hex(value), '7465');
  },
  'BYOB reader of a body': async () => {
    const reader = new Response(bytes('tea')).body.getReader({ mode: 'byob' });
    equal(hex((await reader.read(new Uint8Array(8))).value), '746561');
  },
  'byobRequest': async () => {
    const source = new ReadableStream({
      type: 'bytes',
      pull({ byobRequest }) {
        byobRequest.view[0] = 7;
        byobRequest.respond(1);
      },
    });
    equal([...(await source.getReader({ mode: 'byob' }).read(new Uint8Array(4))).value], [7]);
  },
  'queuing strategies': async () => {
    const { writable } = new TransformStream(undefined, new CountQueuingStrategy({ highWaterMark: 3 }));
    const counted = writable.getWriter().desiredSize;
    const sized = new WritableStream({}, new ByteLengthQueuingStrategy({ highWaterMark: 10 })).getWriter();
    void sized.write(bytes('tea'));
    equal([counted, sized.desiredSize], [3, 7]);
  },
  'WritableStream abort signal': async () => {
    let signal;
    const writer = new WritableStream({ start: (controller) => void ({ signal } = controller) }).getWriter();
    await writer.abort('stop');
    equal([signal.aborted, signal.reason], [true, 'stop']);
  },
  'TextEncoderStream': async () => equal((await collect(stream('te', 'a\ud83d', '\ude00').pipeThrough(new TextEncoderStream()))).map(hex).join(''), '746561f09f9880'),
  'TextDecoderStream': async () => equal((await collect(stream(bytes('ü').slice(0, 1), bytes('ü').slice(1)).pipeThrough(new TextDecoderStream()))).join(''), 'ü'),
  'CompressionStream': async () => {
    for (const format of ['gzip', 'deflate', 'deflate-raw']) {
      const copy = stream(bytes('tea'.repeat(50))).pipeThrough(new CompressionStream(format)).pipeThrough(new DecompressionStream(format));
      equal((await new Response(copy).text()).length, 150);
    }
    equal(await thrown(() => new CompressionStream('zip')), 'TypeError');
  },
});
