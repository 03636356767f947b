// better-auth
import { betterAuth } from 'better-auth';
import { memoryAdapter } from 'better-auth/adapters/memory';
import { checks } from '../checks.js';

const auth = () => betterAuth({
  baseURL: 'http://shop.example', secret: 's'.repeat(40), emailAndPassword: { enabled: true },
  database: memoryAdapter({ user: [], session: [], account: [], verification: [] }),
});

export default checks({
  'sign up and session': async () => { const own = auth(); const answer = await own.handler(new Request('http://shop.example/api/auth/sign-up/email', { method: 'POST', headers: { 'content-type': 'application/json', origin: 'http://shop.example' }, body: JSON.stringify({ email: 'ada@shop.example', password: 'correct horse', name: 'Ada' }) })); const { user } = await answer.json(); const headers = new Headers({ cookie: answer.headers.get('set-cookie').split(';')[0] }); const session = await own.api.getSession({ headers }); return [answer.status, user.name, session.user.email]; },
});
