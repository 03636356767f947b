// fetch
import { bytes, checks, collect, equal, hex, thrown } from '../checks.js';

const URL_A = 'http://a.example/';

export default checks({
  'Headers': async () => {
    const headers = new Headers([['B', '2'], ['a', '1'], ['b', '3']]);
    headers.append('set-cookie', 'a=1');
    headers.append('set-cookie', 'b=2');
    equal([[...headers], headers.getSetCookie(), await thrown(() => headers.set('a b', ''))], [
      [['a', '1'], ['b', '2, 3'], ['set-cookie', 'a=1'], ['set-cookie', 'b=2']], ['a=1', 'b=2'], 'TypeError',
    ]);
  },
  'Request attributes': () => {
    const { method, url, redirect, mode, credentials, cache, integrity, referrer, signal, keepalive, destination } = new Request(`${URL_A}#x`, { method: 'post' });
    equal([method, url, redirect, mode, credentials, cache, integrity, referrer, signal.aborted, keepalive, destination],
      ['POST', `${URL_A}#x`, 'follow', 'cors', 'same-origin', 'default', '', 'about:client', false, false, '']);
  },
  'Request of a request': async () => {
    const request = new Request(new Request(URL_A, { method: 'POST', body: 'tea', headers: { a: '1' } }), { headers: { b: '2' } });
    equal([request.method, [...request.headers.keys()].includes('a'), await request.text()], ['POST', false, 'tea']);
  },
  'Request errors': async () => equal(await Promise.all([
    thrown(() => new Request('http://')), thrown(() => new Request(URL_A, { body: 'x' })), thrown(() => new Request('http://a:b@c.example/')),
    thrown(() => new Request(URL_A, { method: 'TRACE' })),
  ]), ['TypeError', 'TypeError', 'TypeError', 'TypeError']),
  'Request.clone': async () => {
    const request = new Request(URL_A, { method: 'POST', body: 'tea' });
    equal([await request.clone().text(), await request.text()], ['tea', 'tea']);
  },
  'Request signal': () => {
    const controller = new AbortController();
    const { signal } = new Request(URL_A, { signal: controller.signal });
    controller.abort('stop');
    equal([signal.aborted, signal.reason], [true, 'stop']);
  },
  'Request body stream': async () => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(bytes('te'));
        controller.enqueue(bytes('a'));
        controller.close();
      },
    });
    equal(await new Request(URL_A, { method: 'POST', body, duplex: 'half' }).text(), 'tea');
  },
  'bodies': async () => equal(await Promise.all([
    'tea', bytes('tea'), bytes('tea').buffer, new Blob(['tea'], { type: 'a/b' }), new URLSearchParams({ a: 'ü' }),
  ].map(async (body) => {
    const response = new Response(body);
    return [response.headers.get('content-type'), await response.text()];
  })), [
    ['text/plain;charset=UTF-8', 'tea'], [null, 'tea'], [null, 'tea'], ['a/b', 'tea'],
    ['application/x-www-form-urlencoded;charset=UTF-8', 'a=%C3%BC'],
  ]),
  'arrayBuffer and bytes': async () => equal([hex(await new Response('tea').arrayBuffer()), hex(await new Response('tea').bytes())], ['746561', '746561']),
  'blob with type': async () => {
    const blob = await new Response('tea', { headers: { 'content-type': 'Text/Plain' } }).blob();
    equal([blob.type, blob.size], ['text/plain', 3]);
  },
  'formData multipart': async () => {
    const form = new FormData();
    form.append('a', 'ü');
    form.append('f', new File([new Uint8Array([0, 255, 10])], 'x.bin', { type: 'image/png' }));
    const copy = await new Response(form).formData(), file = copy.get('f');
    equal([copy.get('a'), file.name, file.type, hex(await file.arrayBuffer())], ['ü', 'x.bin', 'image/png', '00ff0a']);
  },
  'formData urlencoded': async () => equal([...await new Response(new URLSearchParams('a=1&a=b+c')).formData()], [['a', '1'], ['a', 'b c']]),
  'body used': async () => {
    const response = new Response('tea');
    await response.text();
    equal([response.bodyUsed, await thrown(() => response.text())], [true, 'TypeError']);
  },
  'Response.clone': async () => {
    const response = new Response('tea', { status: 201, headers: { a: '1' } }), copy = response.clone();
    equal([copy.status, copy.headers.get('a'), await response.text(), await copy.text()], [201, '1', 'tea', 'tea']);
  },
  'Response.error': () => equal([Response.error().type, Response.error().status], ['error', 0]),
  'Response.json': async () => {
    const response = Response.json({ a: 1 }, { status: 202 });
    equal([response.status, response.headers.get('content-type'), await response.json()], [202, 'application/json', { a: 1 }]);
  },
  'Response.redirect': async () => {
    const response = Response.redirect(URL_A, 307);
    equal([response.status, response.headers.get('location'), await thrown(() => Response.redirect(URL_A, 200))], [307, URL_A, 'RangeError']);
  },
  'Response errors': async () => equal(await Promise.all([
    thrown(() => new Response('', { status: 99 })), thrown(() => new Response('x', { status: 204 })), thrown(() => new Response('', { statusText: '\n' })),
  ]), ['RangeError', 'TypeError', 'TypeError']),
  'fetch': async (env) => {
    const response = await fetch(`${env.UPSTREAM}/echo?a=1`, { method: 'PUT', body: 'tea' });
    const { method, path, body, type } = await response.json();
    equal([response.status, response.ok, response.type, method, path, body, type], [200, true, 'basic', 'PUT', '/echo?a=1', 'tea', 'text/plain;charset=UTF-8']);
  },
  'fetch follows redirects': async (env) => {
    const response = await fetch(`${env.UPSTREAM}/redirect`);
    equal([response.redirected, response.url, response.status], [true, `${env.UPSTREAM}/echo?redirected`, 200]);
  },
  'fetch refuses redirects': async (env) => equal(await thrown(() => fetch(`${env.UPSTREAM}/redirect`, { redirect: 'error' })), 'TypeError'),
  'fetch decodes gzip': async (env) => equal(await (await fetch(`${env.UPSTREAM}/gzip`)).text(), 'tea '.repeat(100)),
  'fetch network error': async () => equal(await thrown(() => fetch('http://127.0.0.1:1/')), 'TypeError'),
  'fetch data URL': async () => {
    const response = await fetch('data:text/plain;base64,dGVh');
    equal([response.headers.get('content-type'), await response.text()], ['text/plain', 'tea']);
  },
  'fetch aborted': async (env) => {
    const controller = new AbortController();
    controller.abort();
    equal(await thrown(() => fetch(`${env.UPSTREAM}/echo`, { signal: controller.signal })), 'AbortError');
  },
  'fetch uploads a stream': async (env) => {
    const body = ReadableStream.from([bytes('te'), bytes('a')]);
    equal((await (await fetch(`${env.UPSTREAM}/echo`, { method: 'POST', body, duplex: 'half' })).json()).body, 'tea');
  },
  'fetch body in chunks': async (env) => equal((await collect((await fetch(`${env.UPSTREAM}/gzip`)).body)).reduce((sum, { length }) => sum + length, 0), 400),
});
