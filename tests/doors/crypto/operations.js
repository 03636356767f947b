// Computes operations of the crypto Door with Node. Reads a line of JSON for each, with bytes in hex; writes one.
const crypto = require("node:crypto");
const { subtle } = crypto.webcrypto;
const bytes = (text) => Buffer.from(text, "hex");
const hashName = (name) => name.toLowerCase().replace("sha-", "sha").replace("/", "-");

const derivations = {
  PBKDF2: ({ key, salt, iterations, length, hash }) => crypto.pbkdf2Sync(key, salt, iterations, length, hash),
  HKDF: ({ key, salt, info, length, hash }) => crypto.hkdfSync(hash, key, salt, info, length),
  scrypt: ({ key, salt, length, n: N, r, p }) => crypto.scryptSync(key, salt, length, { N, r, p }),
};

const operations = {
  digest: ({ hash, data }) => crypto.createHash(hash).update(data).digest(),
  hmac: ({ hash, key, data }) => crypto.createHmac(hash, key).update(data).digest(),
  derive: (members) => derivations[members.algorithm](members),
  async encrypt({ algorithm: name, key, data, iv, counter, length, tag_length: tagLength, additional_data: additionalData }) {
    if (name === "AES-KW") {
      const cipher = crypto.createCipheriv(`id-aes${key.length * 8}-wrap`, key, Buffer.alloc(8, 0xa6));
      return Buffer.concat([cipher.update(data), cipher.final()]);
    }
    if (name === "AES-GCM") {
      const cipher = crypto.createCipheriv(`aes-${key.length * 8}-gcm`, key, iv, { authTagLength: tagLength / 8 });
      return Buffer.concat([cipher.setAAD(additionalData).update(data), cipher.final(), cipher.getAuthTag()]);
    }
    const imported = await subtle.importKey("raw", key, name, false, ["encrypt"]);
    return subtle.encrypt({ name, iv, counter, length }, imported, data);
  },
};

async function answer(line) {
  const [operation, members, texts] = JSON.parse(line);
  for (const [name, text] of Object.entries(texts)) members[name] = bytes(text);
  if (members.hash) members.hash = hashName(members.hash);
  try {
    return Buffer.from(await operations[operation](members)).toString("hex");
  } catch {
    return null;
  }
}

(async () => {
  for await (const line of require("node:readline").createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(line))}\n`);
  }
})();
