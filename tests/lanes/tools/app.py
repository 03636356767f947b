import json

from componentize_py_types import Err, Ok
from wit_world import exports
from wit_world.imports.streams import StreamError_Closed
from wit_world.imports.types import (
    Fields,
    IncomingBody,
    IncomingRequest,
    Method_Post,
    OutgoingBody,
    OutgoingResponse,
    ResponseOutparam,
)


def read(message: IncomingRequest) -> bytes:
    body, parts = message.consume(), []
    with body.stream() as stream:
        while True:
            try:
                parts.append(stream.blocking_read(65536))
            except Err as error:
                if not isinstance(error.value, StreamError_Closed):
                    raise
                break
    IncomingBody.finish(body)
    return b"".join(parts)


def write(body: OutgoingBody, content: bytes) -> None:
    with body.write() as stream:
        for start in range(0, len(content), 4096):  # the most that one call takes
            stream.blocking_write_and_flush(content[start : start + 4096])
    OutgoingBody.finish(body, None)


def answer(request: IncomingRequest) -> tuple[int, object]:
    if not isinstance(request.method(), Method_Post):
        return 200, {"path": request.path_with_query()}
    try:
        return 200, {"sum": sum(json.loads(read(request)))}
    except (TypeError, ValueError) as error:
        return 400, {"error": str(error)}


class IncomingHandler(exports.IncomingHandler):
    def handle(self, request: IncomingRequest, response_out: ResponseOutparam) -> None:
        status, value = answer(request)
        response = OutgoingResponse(Fields.from_list([("content-type", b"application/json")]))
        response.set_status_code(status)
        body = response.body()
        ResponseOutparam.set(response_out, Ok(response))
        write(body, json.dumps(value).encode())
