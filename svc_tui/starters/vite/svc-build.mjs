// `svc dev` starts this program once. It builds for each line of its input, without loading its modules again.
import { createInterface } from 'node:readline';
import { createBuilder } from 'vite';

for await (const _ of createInterface({ input: process.stdin })) {
  process.env.BUILD_ID = `${Date.now()}`;
  try {
    const builder = await createBuilder({ logLevel: 'warn' }, null);
    await builder.buildApp();
    console.log('\nsvc: built');
  } catch (error) {
    console.error(error.plugin ? error.message : error.stack);
    console.log('\nsvc: failed');
    // After an error of the browser's part, SvelteKit does not build its server again in this process.
    process.exit();
  }
  // svc starts it again for the next build. SvelteKit's memory grows with each one.
  if (process.memoryUsage.rss() > 2 ** 30) process.exit();
}
