addEventListener('fetch', (event) => event.respondWith(answer(event.request)));

async function answer(request) {
  const text = await request.text();
  return new Response(`${new URL(request.url).pathname} ${text}`, { headers: { 'x-tool': 'componentize-js' } });
}
