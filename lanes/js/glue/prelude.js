// Runs before the user's module. A deploy build evaluates that module while the component's memory is
// snapshotted, where asking for randomness would end the build; so it gets a fixed sequence there, and
// the real one from the first request on.
const random = Math.random;
const fill = crypto.getRandomValues.bind(crypto);
const uuid = crypto.randomUUID.bind(crypto);
let state = 0x2545f491;

function next() {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return state >>> 0;
}

Math.random = () => next() / 4294967296;
crypto.getRandomValues = (array) => {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  for (let i = 0; i < bytes.length; i++) bytes[i] = next();
  return array;
};
crypto.randomUUID = () => {
  const hex = [8, 4, 4, 4, 12].map((n) => Array.from({ length: n }, () => (next() & 15).toString(16)).join(''));
  return `${hex[0]}-${hex[1]}-4${hex[2].slice(1)}-8${hex[3].slice(1)}-${hex[4]}`;
};

export function restoreRandomness() {
  Math.random = random;
  crypto.getRandomValues = fill;
  crypto.randomUUID = uuid;
}
