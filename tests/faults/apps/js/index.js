// The body has lines: the kind of request, its key and whether it may be stale, then each statement with its
// parameters. Tabs divide the parts of a line. The answer is the column `found`, or the code of a refusal.
import { tables } from '@svc/guest';

export default {
  async fetch(request) {
    const lines = (await request.text()).split('\n').map((line) => line.split('\t'));
    const [[kind, idempotencyKey, stale], ...statements] = lines;
    const on = tables.withOptions({ ...(idempotencyKey && { idempotencyKey }), ...(stale && { staleOk: true }) });
    try {
      if (kind === 'query') return new Response((await on.query(...statements[0]))[0].found);
      if (kind === 'exec') await on.exec(...statements[0]);
      else await on.batch(statements.map((statement) => tables.sql(...statement)));
      return new Response('');
    } catch (error) {
      if (!(error instanceof tables.Error)) throw error;
      return new Response(error.code, { status: error.status });
    }
  },
};
