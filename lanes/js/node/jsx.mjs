// esbuild plugin: `jsxImportSource`, in a comment or in tsconfig.json, implies the automatic JSX runtime.
import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';

const PRAGMA = /@jsx(Runtime|Frag|ImportSource)?\s/;
const CONFIGS = ['tsconfig.json', 'jsconfig.json'];
const COMMENTS = /("(?:[^"\\]|\\.)*")|\/\/.*|\/\*[^]*?\*\//g;

/** Return the import source of the nearest configuration that does not choose a JSX transform itself. */
function importSource(folder) {
  for (; ; folder = dirname(folder)) {
    const config = CONFIGS.map((name) => join(folder, name)).find(existsSync);
    if (config) {
      const text = readFileSync(config, 'utf8').replace(COMMENTS, '$1');
      const [, source] = /"jsxImportSource"\s*:\s*"([^"*\n]+)"/.exec(text) ?? [];
      return /"jsx"\s*:\s*"react/.test(text) ? undefined : source;
    }
    if (folder === dirname(folder)) return undefined;
  }
}

function pragma(text, path) {
  if (/@jsxRuntime\s/.test(text)) return '';
  if (/@jsxImportSource\s/.test(text)) return '@jsxRuntime automatic';
  const source = PRAGMA.test(text) ? undefined : importSource(dirname(path));
  return source ? `@jsxRuntime automatic @jsxImportSource ${source}` : '';
}

export const jsx = {
  name: 'svc-jsx',
  setup(build) {
    build.onLoad({ filter: /\.[jt]sx$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8'), added = pragma(text, path);
      // At the end, so that positions stay.
      return added ? { contents: `${text}\n/** ${added} */\n`, loader: extname(path).slice(1) } : undefined;
    });
  },
};
