// Unicode property escapes (\p{…}) of regular expressions, which the engine lacks: character classes replace them in
// literals, and in patterns that are compiled at run time if the property is written anywhere in the bundle.
const ESCAPE = /\\[pP]\{/;
const NAMES = /\\\\?[pP]\{([\w=]+)\}/g;
const classes = new Map();

/** Return an escaped character in hexadecimal, because packages replace `^` and other characters in sources. */
const hexadecimal = (_, character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;

/**
 * Return the contents of the character classes of a property and its complement, or undefined if it is unknown.
 *
 * `rewritePattern` is that of regexpu-core.
 */
function classesOf(name, rewritePattern) {
  if (!classes.has(name)) {
    const contents = (escape) => rewritePattern(`${escape}{${name}}`, 'u', { unicodePropertyEscapes: 'transform' })
      .slice(1, -1)
      .replace(/\\([^\w])/g, hexadecimal);
    try {
      classes.set(name, [contents('\\p'), contents('\\P')]);
    } catch {
      classes.set(name, undefined);
    }
  }
  return classes.get(name);
}

/**
 * Return a pattern with character classes instead of property escapes. Runs in bundles too.
 *
 * Packages compile the source of a literal without its flags, to count groups; then code points above U+FFFF are
 * invalid ranges, which are omitted.
 */
function expand(source, flags, classesOf) {
  if (!/[uv]/.test(flags)) return source.replace(/\\u\{[\dA-F]{5,6}\}(?:-\\u\{[\dA-F]{5,6}\})?/g, '');
  if (!/\\[pP]\{/.test(source)) return source;
  let depth = 0;
  return source.replace(/\\([pP])\{([^}]*)\}|\\[^]|[[\]]/g, (token, kind, name) => {
    if (token === '[') depth = flags.includes('v') ? depth + 1 : 1;
    else if (token === ']') depth = Math.max(0, depth - 1);
    else if (kind) {
      const content = classesOf(name)?.[kind === 'P' ? 1 : 0];
      if (content !== undefined) return depth && !flags.includes('v') ? content : `[${content}]`;
    }
    return token;
  });
}

/** Make RegExp expand property escapes. Runs in bundles. */
function install(expand, classes) {
  const Native = RegExp;
  const pattern = (args) => {
    const [source, flags = ''] = args;
    return typeof source === 'string' ? [expand(source, String(flags), (name) => classes[name]), ...args.slice(1)] : args;
  };
  globalThis.RegExp = new Proxy(Native, {
    apply: (target, self, args) => Reflect.apply(target, self, pattern(args)),
    construct: (target, args, newTarget) => Reflect.construct(target, pattern(args), newTarget === globalThis.RegExp ? target : newTarget),
  });
  Native.prototype.constructor = globalThis.RegExp;
}

const oneLine = (callback) => String(callback).replace(/^\s+/gm, '').replaceAll('\n', ' ');

/** Return code that works without property escapes, and code to run before it. Lines stay where they are. */
export async function withoutPropertyEscapes(code) {
  if (!ESCAPE.test(code)) return { code, before: '' };
  // Few bundles need these packages, which take a quarter of the time of a small build to load.
  const [{ parse }, { default: rewritePattern }] = await Promise.all([import('acorn'), import('regexpu-core')]);
  const known = (name) => classesOf(name, rewritePattern);
  const parts = [];
  let end = 0;
  parse(code, {
    ecmaVersion: 'latest',
    sourceType: 'module',
    allowReturnOutsideFunction: true,
    onToken({ type, value, start, end: next }) {
      if (type.label !== 'regexp' || !ESCAPE.test(value.pattern)) return;
      parts.push(code.slice(end, start), `/${expand(value.pattern, value.flags, known)}/${value.flags}`);
      end = next;
    },
  });
  parts.push(code.slice(end));
  const expanded = parts.join('');
  const table = {};
  for (const [, name] of expanded.matchAll(NAMES)) {
    const contents = known(name);
    if (contents) table[name] = contents;
  }
  const compiles = /\bRegExp\b/.test(code);
  const before = compiles ? `(${oneLine(install)})(${oneLine(expand)}, ${JSON.stringify(table)});` : '';
  return { code: expanded, before };
}
