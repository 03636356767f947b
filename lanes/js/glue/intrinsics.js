// Functions of the engine as they are before the user's module, which may replace them. Keys pass through these only.
export const { apply } = Reflect;
const { parse, stringify } = JSON, { freeze, setPrototypeOf, defineProperty, getPrototypeOf } = Object;
const Bytes = Uint8Array, { fromBase64: decode, prototype: { toBase64: encode } } = Bytes;
const { slice } = String.prototype;
export { freeze };

/** Make properties of a prototype permanent: the bindings of the host use them. */
export function makePermanent(prototype, ...names) {
  for (const name of names) {
    const accessor = Object.getOwnPropertyDescriptor(prototype, name).get;
    defineProperty(prototype, name, accessor ? { configurable: false } : { configurable: false, writable: false });
  }
}

makePermanent(getPrototypeOf(Bytes.prototype), 'length', 'byteLength', 'byteOffset', 'buffer');

/** Return an object without inherited members, of which a getter of `Object.prototype` would receive the object. */
export const bare = (object) => setPrototypeOf(object, null);
export const toJson = (members) => stringify(bare(members));
/** Return the members of a JSON object. Throws SyntaxError and TypeError. */
export const fromJson = (text) => bare(parse(text));
export const toBase64 = (bytes, options = undefined) => apply(encode, bytes, [options]);
export const fromBase64 = (text, options = undefined) => apply(decode, Bytes, [text, options]);
export const textBetween = (text, start, end) => apply(slice, text, [start, end]);
export const newBytes = (source) => new Bytes(source);
