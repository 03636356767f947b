// `password` of '@svc/guest': Argon2id by the crypto Door. Types and documentation are in svc-guest.d.ts.
import { documentOf, post } from './door.js';

async function ask(operation, members) {
  for (const [name, value] of Object.entries(members)) {
    if (typeof value !== 'string') throw new TypeError(`the ${name} is of type ${typeof value}, not a string`);
  }
  const [status, text] = await post('crypto', `/v1/password/${operation}`, JSON.stringify(members));
  const answer = documentOf(text);
  if (status !== 200) throw new Error(answer.detail ?? `the response has status ${status}`);
  return answer;
}

export async function hash(password) {
  return (await ask('hash', { password })).hash;
}

export async function verify(password, hash) {
  return (await ask('verify', { password, hash })).valid;
}
