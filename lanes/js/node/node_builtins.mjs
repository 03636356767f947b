// esbuild plugin: modules of Node.js. They are packages of the toolchain or files in `compat`. Others, and functions
// that those files lack, can be imported and throw when they are called.
import { readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { isAbsolute, join, relative, sep } from 'node:path';

const JSPM = '@jspm/core/nodelibs';
/** Modules that are used as @jspm/core has them. */
const PACKAGED = new Set([
  'assert', 'assert/strict', 'constants', 'diagnostics_channel', 'events', 'path', 'path/posix', 'path/win32', 'punycode',
  'querystring', 'stream/promises', 'string_decoder', 'sys', 'url', 'util/types',
]);
/** Modules that are files in `compat`. */
const OWN = new Set([
  'async_hooks', 'buffer', 'console', 'os', 'perf_hooks', 'process', 'stream', 'stream/consumers', 'stream/web', 'timers',
  'timers/promises', 'util',
]);
/** Modules of which `compat` has a part. */
const PARTS = new Set(['cloudflare:workers', 'crypto', 'fs', 'fs/promises', 'http', 'https', 'module', 'net', 'tty', 'worker_threads', 'zlib']);
/** The module whose alternative is also that of others. */
const LIKE = { dgram: 'net', dns: 'net', http2: 'net', https: 'http', tls: 'net' };
/** The file of @jspm/core that has its `process`, which lacks microtasks; the global one replaces it. */
const PROCESS = /nodelibs\/browser\/chunk-DEMDiNwt\.js$/;
// A narrow filter: esbuild asks this process about every import that matches.
const BUILTINS = new RegExp(`^(node:.*|cloudflare:.*|${builtinModules.join('|')})$`);

/** Return the npm package of a file, or nothing. */
function packageOf(file) {
  return /.*[\\/]node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)/.exec(file)?.[1].replace(sep, '/');
}

/** Return why functions of a module cannot be called by its importer, and what to do instead. */
function refusal(name, importer, { modules, packages }, root) {
  const owner = packageOf(importer), [base] = name.split('/');
  const subject = name.startsWith('cloudflare:') ? 'Cloudflare Workers' : 'Node.js';
  const has = PARTS.has(name) ? 'has only a part of' : 'does not have';
  const instead = packages[owner] ?? modules[base] ?? modules[LIKE[base]];
  return `the js lane ${has} the module "${name}" of ${subject}, which ${owner ? `the package ${owner}` : relative(root, importer)} imports`
    + (instead ? `; ${instead}` : '');
}

export function nodeBuiltins({ compat, packages, root }) {
  const instead = JSON.parse(readFileSync(join(compat, 'instead.json')));
  return {
    name: 'svc-node-builtins',
    setup(build) {
      function provided(name) {
        if (OWN.has(name)) return { path: join(compat, `${name}.cjs`), sideEffects: false };
        return PACKAGED.has(name) ? { path: name, namespace: 'svc-node', sideEffects: false } : undefined;
      }

      build.onResolve({ filter: BUILTINS }, async ({ path, resolveDir, kind, importer, pluginData }) => {
        if (pluginData === 'svc-again') return undefined;
        // A package of npm may have the name of a module of Node.js, and `browser` of a package.json may replace it.
        const resolved = await build.resolve(path, { resolveDir, kind, importer, pluginData: 'svc-again' });
        if (!resolved.errors.length) return isAbsolute(resolved.path) ? resolved : { path, namespace: 'svc-none' };
        const name = path.replace(/^node:/, '');
        return provided(name) ?? { path: name, namespace: 'svc-lacking', suffix: `?${packageOf(importer) ?? ''}`, pluginData: importer, sideEffects: false };
      });
      build.onResolve({ filter: /^(@jspm\/core|unorm|urlpattern-polyfill)(\/|$)/ }, ({ path, namespace, importer, kind, pluginData }) =>
        (namespace === 'svc-node' || importer.startsWith(compat)) && pluginData !== 'svc-again'
          ? build.resolve(path, { resolveDir: packages, kind, pluginData: 'svc-again' })
          : undefined);
      // The package exports a function that returns all output at once.
      build.onResolve({ filter: /^svc:brotli$/ }, () => ({ path: join(packages, 'brotli/dec/decode.js') }));
      build.onLoad({ filter: /.*/, namespace: 'svc-node' }, ({ path }) => ({
        // CommonJS: its default export is what require() returns, and a missing export is not a build error.
        contents: `module.exports = require(${JSON.stringify(`${JSPM}/${path}`)}).default;`,
        loader: 'js',
        resolveDir: packages,
      }));
      build.onLoad({ filter: PROCESS }, () => ({ contents: 'const { process } = globalThis; export { process as p };' }));
      build.onLoad({ filter: /.*/, namespace: 'svc-none' }, () => ({ contents: 'module.exports = {};', loader: 'js' }));
      build.onLoad({ filter: /.*/, namespace: 'svc-lacking' }, ({ path, pluginData }) => {
        const values = [path, refusal(path, pluginData, instead, root)].map((value) => JSON.stringify(value));
        if (PARTS.has(path)) values.push(`require(${JSON.stringify(join(compat, `${path.replace(':', '_')}.cjs`))})`);
        const contents = `module.exports = require(${JSON.stringify(join(compat, 'lacking.cjs'))})(${values});`;
        return { contents, loader: 'js', resolveDir: compat };
      });
    },
  };
}
