// esbuild plugin: modules of Node.js. Some are packages of the toolchain or files in `compat`. The others are build
// errors when `import` names them, and throw when require() or import() loads them, because packages guard those.
import { builtinModules } from 'node:module';
import { isAbsolute, join, relative, sep } from 'node:path';

const JSPM = '@jspm/core/nodelibs';
/** Modules that are used as @jspm/core has them. */
const PACKAGED = new Set([
  'assert', 'assert/strict', 'constants', 'diagnostics_channel', 'events', 'path', 'path/posix', 'path/win32', 'punycode',
  'querystring', 'stream', 'stream/promises', 'string_decoder', 'sys', 'url', 'util/types',
]);
/** Modules that are files in `compat`. */
const OWN = new Set(['async_hooks', 'buffer', 'crypto', 'process', 'timers', 'timers/promises', 'util']);
/** The file of @jspm/core that has its `process`, which lacks microtasks; the global one replaces it. */
const PROCESS = /nodelibs\/browser\/chunk-DEMDiNwt\.js$/;
// A narrow filter: esbuild asks this process about every import that matches.
const BUILTINS = new RegExp(`^(node:.*|cloudflare:.*|${builtinModules.join('|')})$`);

/** Return the npm package of a file, or its path in the project. */
function ownerOf(file, root) {
  const [, name] = /.*[\\/]node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)/.exec(file) ?? [];
  return name ? `the package ${name.replace(sep, '/')}` : relative(root, file);
}

function missing(path) {
  const owner = path.startsWith('cloudflare:') ? 'Cloudflare Workers' : 'Node.js';
  return `"${path}" is a module of ${owner}, which the js lane does not have`;
}

export function nodeBuiltins({ compat, packages, root }) {
  return {
    name: 'svc-node-builtins',
    setup(build) {
      async function provided(path) {
        const name = path.replace(/^node:/, '');
        if (OWN.has(name)) return { path: join(compat, `${name}.cjs`), sideEffects: false };
        return PACKAGED.has(name) ? { path: name, namespace: 'svc-node', sideEffects: false } : undefined;
      }

      build.onResolve({ filter: BUILTINS }, async ({ path, resolveDir, kind, importer, pluginData }) => {
        if (pluginData === 'svc-again') return undefined;
        // A package of npm may have the name of a module of Node.js, and `browser` of a package.json may replace it.
        const resolved = await build.resolve(path, { resolveDir, kind, importer, pluginData: 'svc-again' });
        if (!resolved.errors.length) return isAbsolute(resolved.path) ? resolved : { path, namespace: 'svc-none' };
        const module = await provided(path);
        if (module) return module;
        if (kind === 'import-statement') return { errors: [{ text: missing(path) }] };
        return { path, namespace: 'svc-missing', pluginData: ownerOf(importer, root) };
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
      build.onLoad({ filter: /.*/, namespace: 'svc-missing' }, ({ path, pluginData }) => {
        const text = `${missing(path)}; ${pluginData} loads it`;
        return { contents: `throw Object.assign(new Error(${JSON.stringify(text)}), { code: 'MODULE_NOT_FOUND' });`, loader: 'js' };
      });
    },
  };
}
