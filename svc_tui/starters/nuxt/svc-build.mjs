// `svc dev` starts this program once. For each line of its input it builds without compressing the code of the server.
import { spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';

const env = { ...process.env, NUXT_TELEMETRY_DISABLED: '1', SVC_BUILDER: '1' };
for await (const _ of createInterface({ input: process.stdin })) {
  const { status } = spawnSync('node_modules/.bin/nuxt', ['build', '--logLevel', 'silent'], { env, stdio: ['ignore', 'inherit', 'inherit'] });
  console.log(status === 0 ? '\nsvc: built' : '\nsvc: failed');
}
