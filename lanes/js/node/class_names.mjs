// The names of classes in a bundle. esbuild renames a class whose name is also that of another module's, and one
// that mentions itself, and libraries show `constructor.name`. Stack traces have the names of the bundle.
const DIGITS = new Uint8Array(128);
for (const [value, digit] of [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].entries()) {
  DIGITS[digit.charCodeAt(0)] = value;
}
const CLASS = /^(.*?)\b(?:(?:var|let|const) ([\w$]+) = )?class(?: ([\w$]+))?(?: extends [\w$.]+(?:\([\w$., ]*\))?)? \{$/gm;

/** Return the lines of mappings, as lists of [column, source, line, column in the source, name or -1]. */
function decode(mappings) {
  const lines = [[]], state = [0, 0, 0, 0, 0];
  let field = 0, value = 0, shift = 0;
  const close = () => {
    if (field > 3) lines.at(-1).push([...state.slice(0, 4), field > 4 ? state[4] : -1]);
    field = 0;
  };
  for (let at = 0; at < mappings.length; at++) {
    const code = mappings.charCodeAt(at);
    if (code === 0x2c || code === 0x3b) {
      close();
      if (code === 0x3b) {
        lines.push([]);
        state[0] = 0;
      }
      continue;
    }
    const digit = DIGITS[code];
    value += (digit & 31) << shift;
    if (digit & 32) {
      shift += 5;
    } else {
      state[field++] += value & 1 ? -(value >> 1) : value >> 1;
      value = shift = 0;
    }
  }
  close();
  return lines;
}

/** Return a bundle whose classes have the names of the sources. Its line numbers do not change. */
export function withClassNames(code, map) {
  const classes = [...code.matchAll(CLASS)].filter(([, , variable, name]) => /\d$/.test(variable ?? name ?? '') || (variable && name));
  if (!classes.length) return code;
  const { mappings, names } = JSON.parse(map), lines = decode(mappings), parts = [];
  let line = 0, counted = 0, copied = 0;
  for (const { 0: text, 1: { length: before }, 2: variable, 3: name, index } of classes) {
    for (let end; (end = code.indexOf('\n', counted)) >= 0 && end < index; counted = end + 1) line++;
    const at = (column) => lines[line]?.find((segment) => segment[0] === column);
    const declared = text.indexOf(variable ?? name, before), own = name && text.lastIndexOf(`class ${name}`) + 'class '.length;
    const symbol = at(declared), inner = name && at(own);
    // The class expression of a declaration has the position of the declared name.
    if (!symbol || (variable && name && !(inner && [1, 2, 3].every((field) => inner[field] === symbol[field])))) continue;
    const original = symbol[4] < 0 ? variable ?? name : names[symbol[4]], shown = name ?? variable;
    if (original === shown) continue;
    const end = index + text.length;
    parts.push(code.slice(copied, end),
      `static{this.name==="${shown}"&&Object.defineProperty(this,"name",{value:"${original}",configurable:true})}`);
    copied = end;
  }
  return parts.join('') + code.slice(copied);
}
