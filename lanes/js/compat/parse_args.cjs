// parseArgs of node:util: options and positional arguments of a command line.

function fail(code, text, kind = TypeError) {
  throw Object.assign(new kind(text), { code: `ERR_PARSE_ARGS_${code}` });
}

/** Yield the tokens of arguments. A token of an option has `value` unless there is none. */
function* tokensOf(args, options, strict, allowNegative) {
  const isText = (name) => Object.hasOwn(options, name) && options[name].type === 'string';
  const longOf = (short) => Object.keys(options).find((name) => options[name].short === short) ?? short;

  function option(name, rawName, index, rest) {
    const [next] = rest;
    // Without `strict`, an argument that begins with a dash is a value too.
    if (!isText(name) || next === undefined) return { kind: 'option', name, rawName, index, value: undefined, inlineValue: undefined };
    rest.shift();
    return { kind: 'option', name, rawName, index, value: next, inlineValue: false };
  }

  const rest = [...args];
  while (rest.length) {
    const arg = rest.shift(), index = args.length - rest.length - 1;
    const at = arg.indexOf('=');
    if (arg === '--') {
      yield { kind: 'option-terminator', index };
      yield* rest.splice(0).map((value, after) => ({ kind: 'positional', index: index + 1 + after, value }));
    } else if (arg.startsWith('--') && arg.length > 2) {
      const name = arg.slice(2, at > 2 ? at : undefined), positive = name.replace(/^no-/, '');
      if (at > 2) yield { kind: 'option', name, rawName: `--${name}`, index, value: arg.slice(at + 1), inlineValue: true };
      else if (allowNegative && positive !== name && options[positive]?.type === 'boolean') {
        yield { kind: 'option', name: positive, rawName: arg, index, value: undefined, inlineValue: undefined, negative: true };
      } else yield option(name, arg, index, rest);
    } else if (arg.startsWith('-') && arg.length > 1) {
      const letters = [...arg.slice(1)];
      while (letters.length) {
        const short = letters.shift(), name = longOf(short), rawName = `-${short}`;
        if (isText(name) && letters.length) {
          yield { kind: 'option', name, rawName, index, value: letters.splice(0).join(''), inlineValue: true };
        } else yield letters.length
          ? { kind: 'option', name, rawName, index, value: undefined, inlineValue: undefined }
          : option(name, rawName, index, rest);
      }
    } else yield { kind: 'positional', index, value: arg };
  }
}

/** Throw if an option is unknown, or has a value that it cannot have, or none that it needs. */
function check({ name, rawName, value, inlineValue }, options, allowPositionals) {
  const known = options[name], shown = known?.short ? `-${known.short}, --${name}` : `--${name}`;
  if (!known) {
    const hint = allowPositionals
      ? `. To specify a positional argument starting with a '-', place it at the end of the command after '--', as in '-- ${JSON.stringify(rawName)}`
      : '';
    fail('UNKNOWN_OPTION', `Unknown option '${rawName}'${hint}`);
  }
  if (known.type === 'string' && value === undefined) fail('INVALID_OPTION_VALUE', `Option '${shown} <value>' argument missing`);
  if (known.type === 'boolean' && value !== undefined) fail('INVALID_OPTION_VALUE', `Option '${shown}' does not take an argument`);
  if (inlineValue === false && value.startsWith('-') && value.length > 1) {
    const inline = rawName.startsWith('--') ? `'${rawName}=-XYZ'` : `'--${name}=-XYZ' or '${rawName}-XYZ'`;
    fail('INVALID_OPTION_VALUE',
      `Option '${rawName}' argument is ambiguous.\nDid you forget to specify the option argument for '${rawName}'?\n`
      + `To specify an option argument starting with a dash use ${inline}.`);
  }
}

module.exports = function parseArgs({
  args = process.argv.slice(2), options = {}, strict = true, allowPositionals = !strict, allowNegative = false, tokens: wanted = false,
} = {}) {
  const tokens = [...tokensOf(args, options, strict, allowNegative)];
  const values = { __proto__: null }, positionals = [];
  for (const { negative, ...token } of tokens) {
    if (token.kind === 'positional') {
      if (!allowPositionals) {
        fail('UNEXPECTED_POSITIONAL', `Unexpected argument '${token.value}'. This command does not take positional arguments`);
      }
      positionals.push(token.value);
    } else if (token.kind === 'option' && token.name !== '__proto__') {
      if (strict) check(token, options, allowPositionals);
      const value = token.value ?? !negative;
      if (options[token.name]?.multiple) (values[token.name] ??= []).push(value);
      else values[token.name] = value;
    }
  }
  for (const [name, { default: value }] of Object.entries(options)) if (value !== undefined) values[name] ??= value;
  return { values, positionals, ...(wanted && { tokens: tokens.map(({ negative, ...token }) => token) }) };
};
