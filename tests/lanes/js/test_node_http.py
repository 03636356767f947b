"""The client of node:http against a server, in dev and deploy mode."""

import json
from dataclasses import replace

import pytest

from engine.lane import BuildMode
from tests.lanes.js.sources import MODES, Sources
from tests.lanes.workdir import answers
from tests.support.peer import as_json, peer

pytestmark = pytest.mark.slow
PROGRAM = """\
import http from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';

function sent(options, body, ...rest) {
  return new Promise((resolve, reject) => {
    const request = http.request(options, ...rest, async (response) => {
      const { statusCode, statusMessage, headers } = response;
      resolve([statusCode, statusMessage, headers['content-length'], JSON.parse(await text(response))]);
    });
    request.on('error', (error) => resolve([error.code, error.name]));
    for (const part of body) request.write(part);
    request.end();
  });
}

export default {
  async fetch(_, env) {
    const { hostname, port } = new URL(env.ORIGIN);
    const got = await new Promise((resolve) => http.get(`${env.ORIGIN}/got?a=1`, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk) => (body += chunk));
      response.on('end', () => resolve(JSON.parse(body)));
    }));
    const headers = { 'X-A': '1', 'content-length': 6, 'content-type': 'text/x' };
    return Response.json([
      got, await sent({ hostname, port, path: '/p', method: 'post', headers, auth: 'a:b' }, ['tea', 'tea']),
      await sent('http://127.0.0.1:1/', [], {}), https.globalAgent instanceof https.Agent,
    ]);
  },
};
"""


@pytest.mark.parametrize("mode", MODES)
def test_client_of_node_http_exchanges_messages(mode: BuildMode, sources: Sources) -> None:
    sources.write("index.js", PROGRAM)
    artifact = sources.build(mode)
    with peer(as_json) as server:
        resource = replace(sources.resource, egress=(server.origin, "http://127.0.0.1:1"))
        environment = {"ORIGIN": server.origin}
        (answer,) = answers(sources.cache, resource, artifact, "/", method="GET", environment=environment)
    assert answer.status == 200, answer
    got, (status, text, length, request), refused, is_agent = json.loads(answer.body)
    assert got[:2] == ["GET", "/got?a=1"]
    assert (status, text, int(length) > 0) == (200, "OK", True)
    method, target, fields, body = request
    assert (method, target, body) == ("POST", "/p", "teatea")
    assert (fields["x-a"], fields["content-type"], fields["authorization"]) == ("1", "text/x", "Basic YTpi")
    assert refused == ["ECONNREFUSED", "TypeError"]
    assert is_agent
