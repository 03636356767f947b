// Webhooks come in, a job handles each message with retries, and a schedule writes a report every night.
import { jobs, json, log, tables } from '@svc/guest';

const MAX_BYTES = 256 << 10;
const TOLERANCE_MS = 5 * 60_000;
const PAGE = 50;
const DAY_MS = 24 * 3_600_000;
const encoder = new TextEncoder();

/** A message that no further try can handle. */
class Unusable extends Error {}

// Your work. A job can run twice if the service is killed meanwhile, so doing it again must be harmless: this work
// returns a number, which is stored in the row of the message.
async function work(message, tries) {
  // Remove this line. It shows retries: the first two tries fail, and the third, half a minute later, succeeds.
  if (message.type === 'demo.flaky' && tries < 3) throw new Error('another server did not answer');
  const amount = message.data?.amount ?? 0;
  if (!Number.isSafeInteger(amount)) throw new Unusable('data.amount is not an integer');
  return amount;
}

// The signature of Standard Webhooks: an HMAC of id, time and body, so that only holders of the secret can send a
// message, change it, or send it again later. Senders with other signatures need other lines here.
async function isSigned(secret, id, time, body, signatures) {
  if (!(Math.abs(Date.now() - Number(time) * 1000) < TOLERANCE_MS)) return false;
  const bytes = Uint8Array.from(atob(secret.replace(/^whsec_/, '')), (character) => character.charCodeAt(0));
  const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const signed = new Uint8Array(await crypto.subtle.sign('HMAC', key, encoder.encode(`${id}.${time}.${body}`)));
  return signatures.split(' ').some((each) => isEqual(each, `v1,${btoa(String.fromCharCode(...signed))}`));
}

// Compares all characters, so that the time says nothing about the first difference.
function isEqual(sent, expected) {
  let difference = sent.length ^ expected.length;
  for (let i = 0; i < expected.length; i++) difference |= sent.charCodeAt(i) ^ expected.charCodeAt(i);
  return difference === 0;
}

async function receive(request, env) {
  const body = await request.text();
  if (body.length > MAX_BYTES) return json({ title: 'A message has at most 256 KiB' }, { status: 413 });
  const [id, time, signatures] = ['id', 'timestamp', 'signature'].map(
    (name) => request.headers.get(`webhook-${name}`) ?? '',
  );
  if (!id || id.length > 200 || !(await isSigned(env.WEBHOOK_SECRET, id, time, body, signatures))) {
    return json({ title: 'The signature is not valid' }, { status: 401 });
  }
  try {
    JSON.parse(body);
  } catch {
    return json({ title: 'The body is not JSON' }, { status: 400 });
  }
  try {
    // Both or none: a job exists exactly if its message does.
    await tables.batch([tables.sql`insert into messages (id, body) values (${id}, ${body})`, handling(id)]);
  } catch (error) {
    if (!(error instanceof tables.Error && error.constraint === 'unique')) throw error;
    return json({ id, duplicate: true });
  }
  log.info('message received', { id });
  return json({ id }, { status: 202 });
}

const handling = (id) => jobs.sql('/handle', { id }, { key: `message ${id}`, maxTries: 6 });

async function handle(request) {
  const { id } = await request.json();
  const tries = Number(request.headers.get('x-svc-job-try'));
  const isLast = request.headers.get('x-svc-job-try') === request.headers.get('x-svc-job-tries');
  const [message] = await tables.query`select body from messages where id = ${id}`;
  if (!message) return new Response(null, { status: 204 });
  try {
    const amount = await work(JSON.parse(message.body) ?? {}, tries);
    await tables.exec`
      update messages set state = 'done', tries = ${tries}, error = null, amount = ${amount} where id = ${id}`;
    return new Response(null, { status: 204 });
  } catch (error) {
    const isDead = isLast || error instanceof Unusable;
    await tables.exec`
      update messages set state = ${isDead ? 'failed' : 'waiting'}, tries = ${tries}, error = ${error.message}
      where id = ${id}`;
    // svc tries again after 10 s, 20 s, 40 s …; a 422 ends the job at once.
    return json({ title: error.message }, { status: error instanceof Unusable ? 422 : 500 });
  }
}

async function list(before) {
  const [messages, [counts], reports] = await Promise.all([
    tables.query`
      select number, id, body, state, tries, error, received_at from messages
      where number < ${before} order by number desc limit ${PAGE}`,
    tables.query`
      select count(*) as received, coalesce(sum(state = 'waiting'), 0) as waiting,
        coalesce(sum(state = 'failed'), 0) as failed from messages`,
    tables.query`select at, received, done, failed, amount from reports order by at desc limit 14`,
  ]);
  return json({ messages, counts, reports, more: messages.length === PAGE });
}

async function retry(id) {
  const [message] = await tables.query`select state from messages where id = ${id}`;
  if (message?.state !== 'failed') return json({ title: 'Only failed messages are tried again' }, { status: 409 });
  await tables.batch([tables.sql`update messages set state = 'waiting', tries = 0 where id = ${id}`, handling(id)]);
  return json({ id }, { status: 202 });
}

// All responses of the page's API need the password, sent as a bearer token.
async function page(request, url, env) {
  if (!isEqual(request.headers.get('authorization') ?? '', `Bearer ${env.INBOX_PASSWORD}`)) {
    return json({ title: 'Wrong password' }, { status: 401 });
  }
  const id = url.pathname.match(/^\/api\/messages\/([^/]+)$/)?.[1];
  if (request.method === 'GET' && url.pathname === '/api/messages') {
    return list(Number(url.searchParams.get('before')) || Number.MAX_SAFE_INTEGER);
  }
  if (request.method === 'PUT' && id) return retry(decodeURIComponent(id));
  return json({ title: 'Not found' }, { status: 404 });
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    // Only svc can send x-svc-job.
    if (url.pathname === '/handle' && request.headers.has('x-svc-job')) return handle(request);
    const missing = ['WEBHOOK_SECRET', 'INBOX_PASSWORD'].find((name) => !env[name]);
    if (missing) {
      return json({ title: `${missing} has no value`, detail: 'README.md has the command.' }, { status: 503 });
    }
    if (url.pathname === '/hooks' && request.method === 'POST') return receive(request, env);
    return page(request, url, env);
  },

  // Every night, and after `svc schedule run /report`: a report about the last 24 hours.
  async scheduled({ scheduledTime }) {
    const [end, start] = [new Date(scheduledTime), new Date(scheduledTime - DAY_MS)];
    await tables.exec`
      insert or replace into reports (at, received, done, failed, amount)
      select ${end}, count(*), coalesce(sum(state = 'done'), 0), coalesce(sum(state = 'failed'), 0),
        coalesce(sum(amount), 0)
      from messages where received_at >= ${start} and received_at < ${end}`;
    await tables.exec`delete from messages where state = 'done' and received_at < ${new Date(end - 90 * DAY_MS)}`;
  },
};
