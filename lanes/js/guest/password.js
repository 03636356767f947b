// `password` of '@svc/guest': Argon2id by the crypto Door. Types and documentation are in svc-guest.d.ts.
const DOORS = Symbol.for('svc.doors');

function ask(operation, members) {
  const call = globalThis[DOORS];
  if (!call || !globalThis.process?.env?.SVC_CRYPTO_ENDPOINT) {
    throw new Error('SVC_CRYPTO_ENDPOINT is not set: this program is not hosted by svc');
  }
  for (const [name, value] of Object.entries(members)) {
    if (typeof value !== 'string') throw new TypeError(`the ${name} is of type ${typeof value}, not a string`);
  }
  const [status, text] = call('crypto', `/v1/password/${operation}`, JSON.stringify(members)) ?? [503, '{}'];
  const answer = JSON.parse(text);
  if (status !== 200) throw new Error(answer.detail ?? 'too many calls are in progress');
  return answer;
}

export async function hash(password) {
  return ask('hash', { password }).hash;
}

export async function verify(password, hash) {
  return ask('verify', { password, hash }).valid;
}
