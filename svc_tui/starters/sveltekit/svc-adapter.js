// Writes the files for the browser to build/client, and the server, which svc bundles, to build/server.
import { writeFileSync } from 'node:fs';

const SERVER = `import { Server } from './server/index.js';
import { manifest } from './manifest.js';

const server = new Server(manifest);

export default {
  async fetch(request, env, { waitUntil } = {}) {
    await server.init({ env: process.env });
    return server.respond(request, {
      getClientAddress: () => request.headers.get('x-forwarded-for') ?? '',
      platform: { env, waitUntil },
    });
  },
};
`;

export default () => ({
  name: 'svc-adapter',
  async adapt(builder) {
    builder.rimraf('build');
    const client = `build/client${builder.config.kit.paths.base}`;
    builder.writeClient(client);
    builder.writePrerendered(client);
    builder.writeServer('build/server/server');
    const manifest = builder.generateManifest({ relativePath: './server' });
    writeFileSync('build/server/manifest.js', `export const manifest = ${manifest};\n`);
    writeFileSync('build/server/index.js', SERVER);
    const redirects = [...builder.prerendered.redirects].map(([path, { status, location }]) => `${path} ${location} ${status}`);
    if (redirects.length) writeFileSync('build/client/_redirects', `${redirects.join('\n')}\n`);
  },
});
