// Each request runs this module in a new WebAssembly instance, so sessions are in a table.
import { json, log, password, tables } from '@svc/guest';

const MAX_ATTEMPTS = 10;
// The hash of a random password. A log-in for an unknown name is verified against it, so that it takes as long.
const DECOY = '$argon2id$v=19$m=19456,t=2,p=1$xlWbNrjVJ5F0NSE+Mm4oDA$zPG+CxbkaTOstE5IWAbsOpXX1pVfpsRTqvjtzb35gW4';

class Refusal extends Error {
  constructor(status, title, headers) {
    super(title);
    this.response = json({ title }, { status, headers });
  }
}

async function signUp(request) {
  const { name, secret } = await credentials(request);
  const hash = await password.hash(secret);
  try {
    const { lastId } = await tables.exec`insert into members (name, password) values (${name}, ${hash})`;
    log.info('member signed up', { member: lastId });
    return await startSession(lastId, name, 201);
  } catch (error) {
    if (error.constraint === 'unique') throw new Refusal(409, 'Choose another name');
    if (error.constraint === 'check') throw new Refusal(400, 'A name has 2 to 30 characters');
    throw error;
  }
}

async function logIn(request) {
  const { name, secret } = await credentials(request);
  const [, , { rows: [{ count }] }, { rows: [member] }] = await tables.batch([
    tables.sql`delete from attempts where expires < now()`,
    tables.sql`insert into attempts (name) values (${name})`,
    tables.sql`select count(*) as count from attempts where name = ${name}`,
    tables.sql`select id, name, password from members where name = ${name}`,
  ]);
  if (count > MAX_ATTEMPTS) throw new Refusal(429, 'Try again in 15 minutes', { 'retry-after': '900' });
  const valid = await password.verify(secret, member?.password ?? DECOY);
  if (!member || !valid) throw new Refusal(401, 'Wrong name or password');
  await tables.exec`delete from attempts where name = ${name}`;
  return startSession(member.id, member.name, 200);
}

async function logOut(request) {
  await tables.exec`delete from sessions where id = ${await sessionId(request)}`;
  return redirect({ 'set-cookie': cookie('', 0) });
}

async function home(request) {
  const [member] = await tables.query`
    select name, joined from sessions join members on members.id = sessions.member
    where sessions.id = ${await sessionId(request)} and expires > now()`;
  if (!member) return redirect();
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': "default-src 'self'",
    'cache-control': 'no-store',
  };
  return new Response(page(member), { headers });
}

// A name and a password, from JSON.
async function credentials(request) {
  const { name, password: secret } = (await request.json().catch(() => null)) ?? {};
  if (typeof name !== 'string' || typeof secret !== 'string') throw new Refusal(400, 'Send a name and a password');
  if (secret.length < 8 || secret.length > 200) throw new Refusal(400, 'A password has 8 to 200 characters');
  return { name: name.trim(), secret };
}

// The browser gets a random token. The table gets its hash, so that a copy of the table opens no session.
async function startSession(member, name, status) {
  const token = crypto.getRandomValues(new Uint8Array(32)).toHex();
  await tables.batch([
    tables.sql`delete from sessions where expires < now()`,
    tables.sql`insert into sessions (id, member) values (${await sha256(token)}, ${member})`,
  ]);
  return json({ name }, { status, headers: { 'set-cookie': cookie(token, 30 * 86_400) } });
}

async function sessionId(request) {
  const token = /(?:^|; )__Host-session=([0-9a-f]{64})(?:;|$)/.exec(request.headers.get('cookie') ?? '')?.[1];
  return token ? sha256(token) : null;
}

// No script reads the cookie, and no other site or project can set or send it with a form.
function cookie(token, seconds) {
  return `__Host-session=${token}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=${seconds}`;
}

// Browsers name the origin of a page that sends a request. Pages of other origins cannot act for a member.
function isForeign(request) {
  const origin = request.headers.get('origin');
  return origin !== null && origin.replace(/^https?:\/\//, '') !== request.headers.get('host');
}

async function sha256(text) {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))).toHex();
}

const redirect = (headers) => new Response(null, { status: 303, headers: { location: '/', ...headers } });
const escape = (text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

const page = ({ name, joined }) => `<!doctype html>
<html lang="en">
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Members</title>
  <link rel="icon" href="/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/style.css">
  <main data-lane="js">
    <p class="lane">A page by JavaScript, for members</p>
    <h1>Hello, ${escape(name)}</h1>
    <p>You joined on ${joined.slice(0, 10)}. Your session is valid in each language:</p>
    <nav><a href="/js/home">JavaScript</a> <a href="/go/home">Go</a> <a href="/rust/home">Rust</a></nav>
    <form method="post" action="/js/log-out"><button>Log out</button></form>
  </main>
</html>
`;

const ROUTES = {
  'POST /js/sign-up': signUp,
  'POST /js/log-in': logIn,
  'POST /js/log-out': logOut,
  'GET /js/home': home,
};

export default {
  async fetch(request) {
    const route = ROUTES[`${request.method} ${new URL(request.url).pathname}`];
    if (!route) return json({ title: 'Not found' }, { status: 404 });
    if (request.method === 'POST' && isForeign(request)) return json({ title: 'Sent by another site' }, { status: 403 });
    try {
      return await route(request);
    } catch (error) {
      if (error instanceof Refusal) return error.response;
      throw error;
    }
  },
};
