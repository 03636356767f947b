// inspect() and format() of node:util, with collections, classes, symbols and nested values as Node.js shows them.
const CUSTOM = Symbol.for('nodejs.util.inspect.custom');
const WIDTH = 72;
const DEFAULTS = { depth: 2, maxArrayLength: 100, maxStringLength: 10_000, showHidden: false, colors: false, sorted: false, getters: false };

function quoted(text) {
  const quote = ["'", '"', '`'].find((each) => !text.includes(each)) ?? "'";
  const escapes = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\', "'": quote === "'" ? "\\'" : "'" };
  return quote + text.replace(/[\n\r\t\\']/g, (one) => escapes[one]) + quote;
}

function functionName(value) {
  const source = Function.prototype.toString.call(value);
  if (source.startsWith('class')) {
    const parent = Object.getPrototypeOf(value).name;
    return `[class ${value.name || '(anonymous)'}${parent ? ` extends ${parent}` : ''}]`;
  }
  return `[${value.constructor?.name ?? 'Function'}${value.name ? `: ${value.name}` : ' (anonymous)'}]`;
}

function primitive(value, { maxStringLength }) {
  if (typeof value === 'string') {
    const more = value.length - (maxStringLength ?? Infinity);
    return more > 0 ? `${quoted(value.slice(0, maxStringLength))}... ${more} more characters` : quoted(value);
  }
  return typeof value === 'bigint' ? `${value}n` : Object.is(value, -0) ? '-0' : String(value);
}

/** Return parts in one line, or in lines of their own if they are too long for it. */
function enclosed(prefix, [open, close], parts) {
  const start = prefix && `${prefix} `;
  if (!parts.length) return `${start}${open}${close}`;
  const line = `${start}${open} ${parts.join(', ')} ${close}`;
  if (line.length <= WIDTH && !line.includes('\n')) return line;
  return `${start}${open}\n${parts.map((part) => `  ${part.replaceAll('\n', '\n  ')}`).join(',\n')}\n${close}`;
}

function inspect(value, options, depth) {
  const settings = { ...DEFAULTS, ...(typeof options === 'object' ? options : { showHidden: options, ...(depth === undefined ? {} : { depth }) }) };
  const above = [];
  let circular;

  function properties(object, skips) {
    const keys = Reflect.ownKeys(object).filter((key) => !skips(key) && (settings.showHidden || Object.prototype.propertyIsEnumerable.call(object, key)));
    if (settings.sorted) keys.sort();
    return keys.map((key) => {
      const { get, set } = Object.getOwnPropertyDescriptor(object, key);
      const name = typeof key === 'symbol' ? `[${String(key)}]` : /^[a-z_$][\w$]*$/i.test(key) ? key : quoted(key);
      return `${name}: ${get ? (set ? '[Getter/Setter]' : '[Getter]') : set ? '[Setter]' : show(object[key])}`;
    });
  }

  function items(values, size, each) {
    const limit = settings.maxArrayLength ?? Infinity, shown = [];
    for (const one of values) {
      if (shown.length >= limit) break;
      shown.push(each(one));
    }
    return size > shown.length ? [...shown, `... ${size - shown.length} more item${size - shown.length > 1 ? 's' : ''}`] : shown;
  }

  function content(object) {
    const prototype = Object.getPrototypeOf(object), name = prototype === null ? `[${object.constructor?.name ?? 'Object'}: null prototype]` : prototype.constructor?.name ?? 'Object';
    const own = (skips = () => false) => properties(object, skips), index = (key) => /^\d+$/.test(String(key)) || key === 'length';
    if (Array.isArray(object)) {
      return enclosed(name === 'Array' ? '' : `${name}(${object.length})`, '[]', [...items(object, object.length, show), ...own(index)]);
    }
    if (ArrayBuffer.isView(object) && object.length !== undefined) return enclosed(`${name}(${object.length})`, '[]', items(object, object.length, show));
    if (object instanceof Map) {
      return enclosed(`${name}(${object.size})`, '{}', [...items(object, object.size, ([key, one]) => `${show(key)} => ${show(one)}`), ...own()]);
    }
    if (object instanceof Set) return enclosed(`${name}(${object.size})`, '{}', [...items(object, object.size, show), ...own()]);
    if (object instanceof Error) {
      const parts = own((key) => key === 'stack' || key === 'message');
      if (Object.hasOwn(object, 'cause') && !Object.prototype.propertyIsEnumerable.call(object, 'cause')) parts.push(`[cause]: ${show(object.cause)}`);
      const title = String(object), stack = String(object.stack ?? '');
      const text = stack.startsWith(title) ? stack.trimEnd() : `${title}\n${stack}`.trimEnd();
      return parts.length ? enclosed(text, '{}', parts) : text;
    }
    const text = typeof object === 'function' ? functionName(object)
      : object instanceof Date ? (isNaN(object) ? String(object) : object.toISOString())
      : object instanceof RegExp ? String(object)
      : object instanceof String || object instanceof Number || object instanceof Boolean ? `[${name}: ${primitive(object.valueOf(), settings)}]`
      : undefined;
    const parts = own((key) => object instanceof String && index(key));
    if (text !== undefined) return parts.length ? enclosed(text, '{}', parts) : text;
    return enclosed(name === 'Object' ? '' : name, '{}', parts);
  }

  function show(each) {
    if ((typeof each !== 'object' && typeof each !== 'function') || each === null) return primitive(each, settings);
    if (typeof each[CUSTOM] === 'function' && each[CUSTOM] !== inspect && settings.customInspect !== false) {
      const left = settings.depth === null ? null : settings.depth - above.length;
      const shown = each[CUSTOM](left, { ...settings, stylize: (text) => text }, inspect);
      return typeof shown === 'string' ? shown : show(shown);
    }
    if (above.includes(each)) {
      circular = each;
      return '[Circular *1]';
    }
    if (typeof each === 'object' && above.length > (settings.depth ?? Infinity)) return Array.isArray(each) ? '[Array]' : `[${each.constructor?.name ?? 'Object: null prototype'}]`;
    above.push(each);
    const text = content(each);
    above.pop();
    return circular === each ? `<ref *1> ${text}` : text;
  }

  return show(value);
}

inspect.custom = CUSTOM;
inspect.defaultOptions = DEFAULTS;
inspect.colors = {};
inspect.styles = {};

function converted(kind, value, options) {
  switch (kind) {
    case 's': return typeof value === 'string' ? value : typeof value === 'object' && value !== null ? inspect(value, { ...options, depth: 0 }) : primitive(value, DEFAULTS);
    case 'd': return typeof value === 'bigint' ? `${value}n` : typeof value === 'symbol' ? 'NaN' : String(typeof value === 'object' ? Number.NaN : Number(value));
    case 'i': return typeof value === 'bigint' ? `${value}n` : typeof value === 'symbol' ? 'NaN' : String(parseInt(value, 10));
    case 'f': return typeof value === 'symbol' ? 'NaN' : String(parseFloat(value));
    case 'j': return JSON.stringify(value);
    case 'o': return inspect(value, { ...options, showHidden: true, depth: 4 });
    case 'O': return inspect(value, { ...options, depth: 4 });
    default: return '';
  }
}

function formatWithOptions(options, first, ...values) {
  const parts = [];
  if (typeof first === 'string' && values.length) {
    parts.push(first.replace(/%([sdifjoOc%])/g, (all, kind) => (kind === '%' ? '%' : values.length ? converted(kind, values.shift(), options) : all)));
  } else {
    values.unshift(...(first === undefined && !values.length ? [] : [first]));
  }
  return [...parts, ...values.map((value) => (typeof value === 'string' ? value : inspect(value, options)))].join(' ');
}

module.exports = { inspect, formatWithOptions, format: (...values) => formatWithOptions({}, ...values) };
