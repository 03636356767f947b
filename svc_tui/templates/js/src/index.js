// Every request runs this module on a fresh instance: nothing that it keeps in memory survives.
const encoder = new TextEncoder();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// A body may be a stream: each chunk leaves as soon as it is enqueued.
function countdown() {
  const body = new ReadableStream({
    async start(controller) {
      for (let n = 5; n > 0; n--) {
        controller.enqueue(encoder.encode(`data: ${JSON.stringify({ n })}\n\n`));
        await sleep(1000);
      }
      controller.close();
    },
  });
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
  });
}

export default {
  // `env` has the variables of svc.toml and those of the platform.
  async fetch(request, env) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/':
        return new Response('Hello from PROJECT. Try /json?name=you and /events.\n');
      case '/json':
        return Response.json({ hello: url.searchParams.get('name') ?? 'world', request: env.SVC_REQUEST_ID });
      case '/events':
        return countdown();
      default:
        return new Response('not found\n', { status: 404 });
    }
  },
};
