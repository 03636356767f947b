// A handler of wasi:http on the C library, with the functions of the canonical ABI declared by hand.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TYPES "wasi:http/types@0.2.10"
#define STREAMS "wasi:io/streams@0.2.10"
#define IMPORT(module, name) __attribute__((import_module(module), import_name(name))) extern
#define EXPORT(name) __attribute__((export_name(name)))

IMPORT(TYPES, "[constructor]fields") int32_t fields_new(void);
IMPORT(TYPES, "[constructor]outgoing-response") int32_t response_new(int32_t fields);
IMPORT(TYPES, "[method]outgoing-response.body") void response_body(int32_t response, void *result);
IMPORT(TYPES, "[static]response-outparam.set")
void outparam_set(int32_t, int32_t, int32_t, int32_t, int64_t, int32_t, int32_t, int32_t, int32_t);
IMPORT(TYPES, "[method]outgoing-body.write") void body_write(int32_t body, void *result);
IMPORT(TYPES, "[static]outgoing-body.finish") void body_finish(int32_t, int32_t, int32_t, void *result);
IMPORT(TYPES, "[method]incoming-request.path-with-query") void request_path(int32_t request, void *result);
IMPORT(STREAMS, "[method]output-stream.blocking-write-and-flush")
void stream_write(int32_t stream, const void *bytes, size_t length, void *result);
IMPORT(STREAMS, "[resource-drop]output-stream") void stream_drop(int32_t stream);

EXPORT("cabi_realloc") void *cabi_realloc(void *block, size_t old, size_t align, size_t size) {
  (void)old, (void)align;
  return size ? realloc(block, size) : NULL;
}

static int compare(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }

EXPORT("wasi:http/incoming-handler@0.2.10#handle") void handle(int32_t request, int32_t out) {
  struct { int32_t some; char *text; size_t length; } path;
  struct { int32_t failed, handle; } body, stream, result[4];
  request_path(request, &path);
  qsort(path.text, path.length, 1, compare);
  int32_t response = response_new(fields_new());
  response_body(response, &body);
  outparam_set(out, 0, response, 0, 0, 0, 0, 0, 0);
  body_write(body.handle, &stream);
  char text[100];
  int length = snprintf(text, sizeof text, "%.*s %.3f", (int)path.length, path.text, 1.0 / 3);
  stream_write(stream.handle, text, length, result);
  stream_drop(stream.handle);
  body_finish(body.handle, 0, 0, result);
  fprintf(stderr, "answered %d bytes\n", length);
}
