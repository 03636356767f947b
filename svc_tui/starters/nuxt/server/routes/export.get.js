import { tables } from '@svc/guest';

// A stream is sent while it is made.
export default defineEventHandler((event) => {
  setHeader(event, 'content-type', 'text/plain; charset=utf-8');
  return new ReadableStream({
    async start(controller) {
      const encoder = new TextEncoder();
      for (const row of await tables.query`select text from "__TABLE__" order by id`) {
        controller.enqueue(encoder.encode(`${row.text}\n`));
      }
      controller.close();
    },
  });
});
