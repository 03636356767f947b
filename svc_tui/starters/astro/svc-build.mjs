// `svc dev` starts this program once. It builds for each line of its input, without loading its modules again.
import { createInterface } from 'node:readline';
import { build } from 'astro';

process.env.ASTRO_TELEMETRY_DISABLED = '1';
for await (const _ of createInterface({ input: process.stdin })) {
  try {
    await build({ logLevel: 'silent' });
    console.log('\nsvc: built');
  } catch (error) {
    console.error(error.plugin ? error.message : error.stack);
    console.log('\nsvc: failed');
  }
  // svc starts it again for the next build.
  if (process.memoryUsage.rss() > 2 ** 30) process.exit();
}
