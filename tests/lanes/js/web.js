// Checks of web APIs. Each returns a value that test_web.py compares, the same in dev and deploy.
const encoder = new TextEncoder();

function streamOf(...chunks) {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(encoder.encode(chunk));
      controller.close();
    },
  });
}

async function thrown(action) {
  try {
    await action();
  } catch (error) {
    return error.name;
  }
  return 'nothing';
}

/** The texts of a body's bytes as each kind of body reads them. */
async function readings(bytes, read) {
  const url = 'http://x/', method = 'POST', one = () => new ReadableStream({ start: (c) => (c.enqueue(bytes), c.close()) });
  const bodies = [
    new Response(bytes), new Response(one()), new Response(bytes).clone(), new Response(new Blob([bytes])),
    new Request(url, { method, body: bytes }), new Request(url, { method, body: one() }), await fetch(`data:,${percent(bytes)}`),
  ];
  return [...new Set(await Promise.all(bodies.map(read)))];
}

function percent(bytes) {
  return Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
}

async function formOf(type, ...parts) {
  const form = await new Response(new Blob(parts), { headers: { 'content-type': type } }).formData();
  return [...form].map(([name, value]) => [name, value]);
}

function message(action) {
  try {
    action();
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

const checks = {
  async 'timer-order'() {
    const order = [], add = (value) => () => order.push(value);
    setTimeout(add(20), 20);
    const never = setTimeout(add('never'), 10);
    const both = [];
    await new Promise((done) => {
      const every = setInterval((text) => {
        order.push(text);
        clearTimeout(both[1]);
        if (order.filter((one) => one === text).length < 2) return;
        clearInterval(every);
        done();
      }, 8, 'every');
      setTimeout(add(5), 5);
      both.push(setTimeout(add(1), 1), setTimeout(add('cleared when due'), 9));
      clearTimeout(never);
      for (let i = 0, sum = 0; i < 2e7; i += 1) sum += i;
    });
    return [order, typeof never];
  },
  'no-location': () => [typeof location, 'location' in globalThis],
  'utf-8-of-bodies': async () => [
    await readings(new Uint8Array([0x63, 0x61, 0x66, 0xe9]), (body) => body.text()),
    await readings(new Uint8Array(300).fill(0xe9), async (body) => (await body.text()).length),
    await readings(encoder.encode('\ufeffa\ufeff'), (body) => body.text()),
    await readings(encoder.encode('\ufeff{"a":"\ufeff"}'), async (body) => JSON.stringify(await body.json())),
    await readings(new Uint8Array([0x22, 0xff, 0x22]), (body) => body.json()),
    await new Blob([new Uint8Array([0xef, 0xbb, 0xbf, 0x61, 0xff])]).text(),
  ],
  'utf-8-of-forms': async () => [
    await formOf('application/x-www-form-urlencoded', new Uint8Array([0xef, 0xbb, 0xbf]), 'a=', new Uint8Array([0xff]), '&b=%ff'),
    await formOf('multipart/form-data; boundary=x',
      '--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n\ufeff', new Uint8Array([0xff]), '\r\n--x--\r\n'),
  ],
  'body-of-a-status': () => [204, 205, 304].map((status) => message(() => new Response('x', { status })))
    .concat(message(() => Response.json(1, { status: 204 })), new Response(undefined, { status: 204 }).status),
  async 'clone-text'() {
    const response = new Response('tea', { status: 201, headers: { 'x-a': '1' } });
    const copy = response.clone();
    return [copy.status, copy.headers.get('x-a'), await response.text(), await copy.text()];
  },
  async 'clone-twice'() {
    const response = new Response(streamOf('a', 'b'));
    const copies = [response.clone(), response.clone()];
    return Promise.all([...copies, response].map((each) => each.text()));
  },
  async 'clone-is-independent'() {
    const response = new Response('tea', { headers: { 'x-a': '1' } });
    const copy = response.clone();
    copy.headers.set('x-a', '2');
    await copy.text();
    return [response.headers.get('x-a'), response.bodyUsed, copy.bodyUsed, response instanceof Response, copy instanceof Response];
  },
  async 'clone-without-body'() {
    const copy = new Response(null, { status: 204 }).clone();
    return [copy.status, copy.body, await copy.text()];
  },
  async 'clone-of-a-used-body'() {
    const response = new Response('tea');
    await response.text();
    return thrown(() => response.clone());
  },
  async 'clone-of-a-locked-body'() {
    const response = new Response(streamOf('tea'));
    response.body.getReader();
    return thrown(() => response.clone());
  },
  async 'clone-of-a-request'() {
    const request = new Request('http://a.example/', { method: 'POST', body: 'tea' });
    const copy = request.clone();
    return [copy.method, await request.text(), await copy.text()];
  },
  async bytes() {
    const request = new Request('http://a.example/', { method: 'POST', body: 'ab' });
    return [[...await new Response('tea').bytes()], [...await request.bytes()]];
  },
  async blob() {
    const blob = await new Response('<p>', { headers: { 'content-type': 'text/html' } }).blob();
    return [blob.type, blob.size, await blob.text()];
  },
  'content-length': () => [
    new Response('tea').headers.get('content-length'),
    Response.json({ a: 1 }).headers.get('content-length'),
    [...new Response('tea').headers].map(([name]) => name),
    ...[{ 'Content-Length': '3' }, [['content-length', '3']], new Headers({ 'content-length': '3' })].map(
      (headers) => new Response('tea', { headers }).headers.get('content-length'),
    ),
  ],
  async 'stream-from'() {
    const chunks = [];
    for await (const chunk of ReadableStream.from([1, Promise.resolve(2)])) chunks.push(chunk);
    return [chunks, await thrown(() => ReadableStream.from(7))];
  },
  async 'stream-iteration-cancels'() {
    let cancelled = false;
    const stream = new ReadableStream({
      pull: (controller) => controller.enqueue(1),
      cancel() { cancelled = true; },
    });
    for await (const _ of stream) break;
    return [cancelled, stream.locked];
  },
  async 'wrong-content-length'() {
    const bytes = new Uint8Array(2 << 20).fill(97), lengths = [1 << 20, (2 << 20) + 1, 2 << 20, 5];
    const read = (length) => new Response(new Blob([bytes]).stream(), { headers: { 'content-length': `${length}` } }).bytes();
    const text = (all) => new TextDecoder().decode(all);
    return (await Promise.all(lengths.map(read))).map((all) => text(all) === 'a'.repeat(all.length) && all.length);
  },
  async 'stream-iteration-ends-early'() {
    const reasons = [], stream = new ReadableStream({ cancel: (reason) => void reasons.push(reason) });
    const iterator = stream.values(), locked = await thrown(() => stream.values());
    const returned = iterator.return('stop');
    return [locked, stream.locked, await returned, reasons, await iterator.next(), iterator[Symbol.asyncIterator]() === iterator];
  },
  async 'stream-iteration-fails'() {
    const stream = new ReadableStream({ start: (controller) => controller.error(new RangeError('no')) });
    return thrown(async () => { for await (const _ of stream); });
  },
  async 'text-encoder-stream'() {
    const chunks = [];
    const texts = ReadableStream.from(['a\ud83d', '\ude00b', '\ud83d']);
    for await (const chunk of texts.pipeThrough(new TextEncoderStream())) chunks.push([...chunk]);
    return chunks;
  },
  async 'text-decoder-stream'() {
    const bytes = ReadableStream.from([Uint8Array.of(0xc3), Uint8Array.of(0xbc, 0x61)]);
    const decoder = new TextDecoderStream('utf-8', { fatal: true });
    let text = '';
    for await (const chunk of bytes.pipeThrough(decoder)) text += chunk;
    return [text, decoder.encoding, decoder.fatal, decoder.ignoreBOM];
  },
  async 'pipe-with-signal'() {
    const controller = new AbortController(), seen = [];
    const source = new ReadableStream({ pull: (each) => each.enqueue(1), cancel: (reason) => void seen.push(`cancel ${reason}`) });
    const sink = new WritableStream({
      write() { if (seen.push('write') === 2) controller.abort('stop'); },
      abort: (reason) => void seen.push(`abort ${reason}`),
    });
    const error = await source.pipeTo(sink, { signal: controller.signal }).catch((reason) => reason);
    const complete = [];
    await ReadableStream.from([1, 2]).pipeThrough(new TransformStream(), { signal: new AbortController().signal })
      .pipeTo(new WritableStream({ write: (chunk) => void complete.push(chunk) }), { signal: new AbortController().signal });
    const wrong = await thrown(() => source.pipeTo(sink, { signal: 'x' }));
    return [error, seen, source.locked, sink.locked, complete, wrong];
  },
  async 'writable-signal'() {
    let signal;
    const stream = new WritableStream({ start: (controller) => void ({ signal } = controller) });
    const before = signal.aborted;
    await stream.abort('stop');
    return [before, signal.aborted, signal.reason];
  },
  async 'byte-streams'() {
    const source = () => new ReadableStream({
      type: 'bytes',
      start(controller) {
        for (const chunk of ['te', 'a!']) controller.enqueue(encoder.encode(chunk));
        controller.close();
      },
    });
    const [one, two] = source().tee();
    const { value } = await one.getReader({ mode: 'byob' }).read(new Uint8Array(8));
    const least = await source().getReader({ mode: 'byob' }).read(new Uint8Array(8), { min: 3 });
    return [[...value], await new Response(two).text(), least.value.length >= 3];
  },
  async 'file-reader'() {
    const reader = new FileReader(), seen = [];
    for (const type of ['loadstart', 'load']) reader.addEventListener(type, (event) => seen.push([event.type, event.total]));
    const done = new Promise((resolve) => (reader.onloadend = resolve));
    reader.readAsDataURL(new Blob(['tea'], { type: 'text/plain' }));
    const again = await thrown(() => reader.readAsText(new Blob()));
    await done;
    return [seen, reader.result, again];
  },
  async 'byob-of-a-body'() {
    const reader = new Response('tea!').body.getReader({ mode: 'byob' });
    const { value } = await reader.read(new Uint8Array(2));
    const rest = await new Blob(['x']).stream().getReader({ mode: 'byob' }).read(new Uint8Array(4));
    return [[...value], [...rest.value]];
  },
  async 'failing-body'() {
    const failing = () => new ReadableStream({ start: (controller) => controller.error(new RangeError('no')) });
    return [await thrown(() => new Response(failing()).text()), await thrown(() => new Response(streamOf('a').pipeThrough(new TextDecoderStream())).text())];
  },
  async 'data-url'() {
    const load = async (url) => {
      const response = await fetch(url);
      return [response.headers.get('content-type'), [...await response.bytes()]];
    };
    return [await load('data:text/PLAIN;Charset=x,%ff%2'), await load('data:;base64,%64GVh'), await thrown(() => fetch('data:;base64,*'))];
  },
  'refused-requests': async () => Promise.all([
    thrown(() => new Request('http://a.example/', { method: 'TRACE' })), thrown(() => new Request('http://a:b@c.example/')),
    thrown(() => fetch('http://a:b@c.example/')), thrown(() => new Response('', { statusText: '\n' })),
  ]),
  async 'timed-out-signal'() {
    const signal = AbortSignal.timeout(1);
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return thrown(() => signal.throwIfAborted());
  },
  'stream-classes': () => [
    WritableStreamDefaultWriter, WritableStreamDefaultController, TransformStreamDefaultController,
  ].map(({ name }) => name),
  async 'message-channel'() {
    const { port1, port2 } = new MessageChannel(), received = [];
    const done = new Promise((resolve) => {
      port2.onmessage = ({ data }) => (data === 'end' ? resolve() : received.push(data));
    });
    const sent = { list: [1] };
    port1.postMessage(sent);
    sent.list.push(2);
    port1.postMessage('end');
    received.push('first');
    await done;
    return received;
  },
  'error-event': () => {
    const event = new ErrorEvent('error', { message: 'no', error: 7 });
    return [event instanceof Event, event.type, event.message, event.error, event.lineno];
  },
  'report-error': () => {
    let reported;
    const listener = (event) => {
      reported = event.message;
      event.preventDefault();
    };
    addEventListener('error', listener);
    reportError(new Error('no'));
    removeEventListener('error', listener);
    return reported;
  },
  url: () => [URL.canParse('/a', 'http://b.example'), URL.canParse('/a'), URL.parse('/a'), URL.parse('http://b.example/a').pathname],
  'abort-any': () => {
    const [first, second] = [new AbortController(), new AbortController()];
    const signal = AbortSignal.any([first.signal, second.signal]);
    const before = signal.aborted;
    second.abort('reason');
    return [before, signal.aborted, signal.reason, AbortSignal.any([AbortSignal.abort('x')]).reason, AbortSignal.any([]).aborted];
  },
  'abort-without-reason': () => [AbortSignal.abort().reason.name, AbortSignal.abort('x').reason],
  'computed-import': (request) => thrown(() => import(new URL('/module.js', request.url))),
  async base64() { return [await thrown(() => btoa('€')), await thrown(() => atob('*')), atob(btoa('tea'))]; },
  navigator: () => typeof navigator.userAgent,
  performance: () => {
    performance.mark('a', { startTime: 5 });
    performance.mark('b', { startTime: 8, detail: 'x' });
    const { duration, startTime } = performance.measure('c', 'a', 'b');
    const names = performance.getEntries().map(({ name }) => name);
    performance.clearMarks('a');
    return [startTime, duration, names, performance.getEntriesByType('mark').length, performance.getEntriesByName('b')[0].detail];
  },
  async 'request-checks'() {
    const { destination, signal, redirect } = new Request('http://a.example/');
    const failures = [['/relative'], ['http://a:b@c.example/'], ['http://a.example/', { method: 'trace' }]];
    return [destination, signal.aborted, redirect, ...(await Promise.all(failures.map((args) => thrown(() => new Request(...args)))))];
  },
  'incoming-request': (request) => [request.redirect, request.signal.aborted, new Request(request).redirect],
  async clones() {
    const { name, message } = structuredClone(new DOMException('a', 'AbortError'));
    const { cause } = structuredClone(new RangeError('r', { cause: new TypeError('t') }));
    return [name, message, cause.name, await thrown(() => structuredClone({ a: Symbol() })), await thrown(() => structuredClone(() => 1))];
  },
  async 'clone-of-a-key'() {
    const key = await crypto.subtle.importKey('raw', encoder.encode('tea'), { name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
    const value = { list: [key], again: key };
    value.self = value;
    const copy = structuredClone(value), raw = await crypto.subtle.exportKey('raw', copy.again);
    return [copy.list[0] === copy.again, copy.again === key, copy.self === copy, new TextDecoder().decode(raw), structuredClone(key).usages];
  },
  async 'body-used-after-a-pipe'() {
    const piped = new Response('tea'), transformed = new Response('tea'), done = piped.body.pipeTo(new WritableStream());
    const text = await new Response(transformed.body.pipeThrough(new TransformStream())).text();
    await done;
    return [piped.bodyUsed, transformed.bodyUsed, text, new Response('tea').bodyUsed];
  },
  async 'form-without-parts'() {
    const messages = [new Response(new FormData()), new Request('http://a.example/', { method: 'POST', body: new FormData() })];
    return Promise.all(messages.map(async (message) => [...(await message.formData())].length));
  },
  'time-origin': () => Math.abs(performance.timeOrigin + performance.now() - Date.now()) < 1000,
  error: () => {
    const { type, status, ok, body } = Response.error();
    return [type, status, ok, body];
  },
};

const routes = {
  '/copied-headers': () => new Response('longer', { headers: new Response('tagged').headers }),
  '/read-headers': () => {
    const response = new Response('tea');
    response.headers.set('x-a', '1');
    return response;
  },
  '/clone-returned': () => {
    const response = new Response('tea', { status: 201, headers: { 'x-a': '1' } });
    response.clone();
    return response;
  },
  '/copy-returned': () => new Response(streamOf('a', 'b')).clone(),
  '/error-returned': () => Response.error(),
};

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (routes[pathname]) return routes[pathname](request);
    return Response.json(await checks[pathname.slice(1)](request));
  },
};
