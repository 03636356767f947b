// Parses HTTP/1.1 with Node's server. Reads messages with a length of four bytes; writes a line of JSON for each.
const http = require("node:http");
const { Duplex } = require("node:stream");

function parse(data, done) {
  const messages = [];
  const answer = (request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts).toString("latin1");
      messages.push([request.method, request.url, request.rawHeaders, body]);
      response.writeHead(404, { "content-length": "0" }).end();
    });
  };
  const server = http.createServer(answer);
  server.on("checkExpectation", answer); // of any other kind than 100-continue
  const socket = new Duplex({ read() {}, write: (_part, _encoding, written) => written() });
  server.on("clientError", () => socket.destroy());
  socket.on("close", () => done(messages));
  server.emit("connection", socket);
  socket.push(data);
  socket.push(null);
}

let input = Buffer.alloc(0);
process.stdin.on("data", (data) => {
  input = Buffer.concat([input, data]);
  while (input.length >= 4 && input.length >= 4 + input.readUInt32BE(0)) {
    const end = 4 + input.readUInt32BE(0);
    parse(input.subarray(4, end), (messages) => process.stdout.write(JSON.stringify(messages) + "\n"));
    input = input.subarray(end);
  }
});
