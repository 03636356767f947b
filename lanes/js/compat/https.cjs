// node:https: the client of node:http with another scheme.
const { client } = require('./http.cjs');

module.exports = client('https:');
