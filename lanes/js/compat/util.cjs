// node:util: that of @jspm/core, with functions of later versions of Node.js.
const util = require('@jspm/core/nodelibs/util').default;

const ESCAPES = /[\u001b\u009b][[\]()#;?]*(?:\d{1,4}(?:;\d{0,4})*)?[\dA-ORZcf-nqry=><~]/g;

const CUSTOM = Symbol.for('nodejs.util.promisify.custom');

function promisify(original) {
  const { promises, ...timers } = require('./timers.cjs');
  if (original === setTimeout) return promises.setTimeout;
  if (original === setImmediate || original === timers.setImmediate) return promises.setImmediate;
  return original?.[CUSTOM] ?? util.promisify(original);
}
promisify.custom = CUSTOM;

module.exports = {
  ...util,
  promisify,
  ...require('./inspect.cjs'),
  TextDecoder,
  TextEncoder,
  isDeepStrictEqual(a, b) {
    try {
      require('@jspm/core/nodelibs/assert').default.deepStrictEqual(a, b);
      return true;
    } catch {
      return false;
    }
  },
  parseArgs: require('./parse_args.cjs'),
  stripVTControlCharacters: (text) => text.replace(ESCAPES, ''),
  styleText: (_format, text) => text,
  toUSVString: (text) => String(text).toWellFormed(),
};
