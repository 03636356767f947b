package wasi

import "unsafe"

// The next list of bytes of the host that fits is written to this address.
//
//go:wasmimport svc into
func into(to unsafe.Pointer, size uint32)

//go:wasmimport wasi:http/types@0.2.4 [constructor]fields
func fieldsNew() int32

//go:wasmimport wasi:http/types@0.2.4 [static]fields.from-list
func fieldsFromList(entries unsafe.Pointer, count uint32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [method]fields.entries
func fieldsEntries(fields int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [resource-drop]fields
func fieldsDrop(fields int32)

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-request.method
func requestMethod(request int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-request.path-with-query
func requestPath(request int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-request.scheme
func requestScheme(request int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-request.authority
func requestAuthority(request int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-request.headers
func requestHeaders(request int32) int32

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-request.consume
func requestConsume(request int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-body.stream
func incomingBodyStream(body int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [resource-drop]incoming-body
func incomingBodyDrop(body int32)

//go:wasmimport wasi:http/types@0.2.4 [constructor]outgoing-response
func responseNew(fields int32) int32

//go:wasmimport wasi:http/types@0.2.4 [method]outgoing-response.set-status-code
func responseSetStatus(response int32, status int32) int32

//go:wasmimport wasi:http/types@0.2.4 [method]outgoing-response.body
func responseBody(response int32, to unsafe.Pointer)

// The parameters after the response, or after the number of an error code, are the payload of an error code.
//
//go:wasmimport wasi:http/types@0.2.4 [static]response-outparam.set
func outparamSet(outparam, failed, responseOrCode, b int32, c int64, d, e, f, g int32)

//go:wasmimport wasi:http/types@0.2.4 [method]outgoing-body.write
func outgoingBodyWrite(body int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [static]outgoing-body.finish
func outgoingBodyFinish(body, hasTrailers, trailers int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [resource-drop]outgoing-body
func outgoingBodyDrop(body int32)

//go:wasmimport wasi:http/types@0.2.4 [constructor]outgoing-request
func outgoingNew(fields int32) int32

//go:wasmimport wasi:http/types@0.2.4 [method]outgoing-request.set-method
func outgoingSetMethod(request, kind int32, other string) int32

//go:wasmimport wasi:http/types@0.2.4 [method]outgoing-request.set-path-with-query
func outgoingSetPath(request, some int32, path string) int32

//go:wasmimport wasi:http/types@0.2.4 [method]outgoing-request.set-scheme
func outgoingSetScheme(request, some, kind int32, other string) int32

//go:wasmimport wasi:http/types@0.2.4 [method]outgoing-request.set-authority
func outgoingSetAuthority(request, some int32, authority string) int32

//go:wasmimport wasi:http/types@0.2.4 [method]outgoing-request.body
func outgoingBody(request int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [method]future-incoming-response.subscribe
func futureSubscribe(future int32) int32

//go:wasmimport wasi:http/types@0.2.4 [method]future-incoming-response.get
func futureGet(future int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [resource-drop]future-incoming-response
func futureDrop(future int32)

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-response.status
func incomingStatus(response int32) int32

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-response.headers
func incomingHeaders(response int32) int32

//go:wasmimport wasi:http/types@0.2.4 [method]incoming-response.consume
func incomingConsume(response int32, to unsafe.Pointer)

//go:wasmimport wasi:http/types@0.2.4 [resource-drop]incoming-response
func incomingDrop(response int32)

//go:wasmimport wasi:http/outgoing-handler@0.2.4 handle
func outgoingHandle(request, some, options int32, to unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.4 [method]input-stream.read
func inputRead(stream int32, size uint64, to unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.4 [method]input-stream.blocking-read
func inputBlockingRead(stream int32, size uint64, to unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.4 [method]input-stream.subscribe
func inputSubscribe(stream int32) int32

//go:wasmimport wasi:io/streams@0.2.4 [resource-drop]input-stream
func inputDrop(stream int32)

//go:wasmimport wasi:io/streams@0.2.4 [method]output-stream.check-write
func outputCheckWrite(stream int32, to unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.4 [method]output-stream.write
func outputWrite(stream int32, from unsafe.Pointer, size uint32, to unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.4 [method]output-stream.flush
func outputFlush(stream int32, to unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.4 [method]output-stream.subscribe
func outputSubscribe(stream int32) int32

//go:wasmimport wasi:io/streams@0.2.4 [resource-drop]output-stream
func outputDrop(stream int32)

//go:wasmimport wasi:io/error@0.2.4 [resource-drop]error
func errorDrop(err int32)

//go:wasmimport wasi:io/poll@0.2.4 [method]pollable.block
func pollableBlock(pollable int32)

//go:wasmimport wasi:io/poll@0.2.4 [resource-drop]pollable
func pollableDrop(pollable int32)
