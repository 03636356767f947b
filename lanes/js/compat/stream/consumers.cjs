// node:stream/consumers: the whole content of a stream.
async function blob(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return new Blob(chunks);
}

const text = async (stream) => (await blob(stream)).text();
const arrayBuffer = async (stream) => (await blob(stream)).arrayBuffer();

module.exports = {
  arrayBuffer, blob, text,
  buffer: async (stream) => require('../buffer.cjs').Buffer.from(await arrayBuffer(stream)),
  json: async (stream) => JSON.parse(await text(stream)),
};
