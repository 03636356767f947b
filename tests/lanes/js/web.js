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

const checks = {
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
    return Response.json(await checks[pathname.slice(1)]());
  },
};
