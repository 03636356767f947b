;; The interfaces of WASI 0.2.4 that guests of svc import, as instance types of a component named $world.
;; All of the WIT packages wasi:io, wasi:clocks and wasi:http; of wasi:cli and wasi:random what
;; is used. `lanes/wit_imports.py` omits functions that a component does not call.

(import "wasi:io/poll@0.2.4" (instance $poll
  (export "pollable" (type $pollable (sub resource)))
  (export "[method]pollable.ready" (func (param "self" (borrow $pollable)) (result bool)))
  (export "[method]pollable.block" (func (param "self" (borrow $pollable))))
  (export "poll" (func (param "in" (list (borrow $pollable))) (result (list u32))))
))
(alias export $poll "pollable" (type $pollable))

(import "wasi:clocks/monotonic-clock@0.2.4" (instance $clock
  (alias outer $world $pollable (type $outer-pollable))
  (export "pollable" (type $pollable (eq $outer-pollable)))
  (type $nanoseconds u64)
  (export "instant" (type $instant (eq $nanoseconds)))
  (type $nanoseconds-too u64)
  (export "duration" (type $duration (eq $nanoseconds-too)))
  (export "now" (func (result $instant)))
  (export "resolution" (func (result $duration)))
  (export "subscribe-instant" (func (param "when" $instant) (result (own $pollable))))
  (export "subscribe-duration" (func (param "when" $duration) (result (own $pollable))))
))
(alias export $clock "duration" (type $duration))

(import "wasi:io/error@0.2.4" (instance $error-interface
  (export "error" (type $error (sub resource)))
  (export "[method]error.to-debug-string" (func (param "self" (borrow $error)) (result string)))
))
(alias export $error-interface "error" (type $error))

(import "wasi:io/streams@0.2.4" (instance $streams
  (alias outer $world $error (type $outer-error))
  (export "error" (type $error (eq $outer-error)))
  (alias outer $world $pollable (type $outer-pollable))
  (export "pollable" (type $pollable (eq $outer-pollable)))
  (type $stream-error-cases (variant (case "last-operation-failed" (own $error)) (case "closed")))
  (export "stream-error" (type $stream-error (eq $stream-error-cases)))
  (export "input-stream" (type $input-stream (sub resource)))
  (export "output-stream" (type $output-stream (sub resource)))
  (export "[method]input-stream.read" (func
    (param "self" (borrow $input-stream)) (param "len" u64)
    (result (result (list u8) (error $stream-error)))))
  (export "[method]input-stream.blocking-read" (func
    (param "self" (borrow $input-stream)) (param "len" u64)
    (result (result (list u8) (error $stream-error)))))
  (export "[method]input-stream.skip" (func
    (param "self" (borrow $input-stream)) (param "len" u64)
    (result (result u64 (error $stream-error)))))
  (export "[method]input-stream.blocking-skip" (func
    (param "self" (borrow $input-stream)) (param "len" u64)
    (result (result u64 (error $stream-error)))))
  (export "[method]input-stream.subscribe" (func
    (param "self" (borrow $input-stream))
    (result (own $pollable))))
  (export "[method]output-stream.check-write" (func
    (param "self" (borrow $output-stream))
    (result (result u64 (error $stream-error)))))
  (export "[method]output-stream.write" (func
    (param "self" (borrow $output-stream)) (param "contents" (list u8))
    (result (result (error $stream-error)))))
  (export "[method]output-stream.blocking-write-and-flush" (func
    (param "self" (borrow $output-stream)) (param "contents" (list u8))
    (result (result (error $stream-error)))))
  (export "[method]output-stream.flush" (func
    (param "self" (borrow $output-stream))
    (result (result (error $stream-error)))))
  (export "[method]output-stream.blocking-flush" (func
    (param "self" (borrow $output-stream))
    (result (result (error $stream-error)))))
  (export "[method]output-stream.subscribe" (func
    (param "self" (borrow $output-stream))
    (result (own $pollable))))
  (export "[method]output-stream.write-zeroes" (func
    (param "self" (borrow $output-stream)) (param "len" u64)
    (result (result (error $stream-error)))))
  (export "[method]output-stream.blocking-write-zeroes-and-flush" (func
    (param "self" (borrow $output-stream)) (param "len" u64)
    (result (result (error $stream-error)))))
  (export "[method]output-stream.splice" (func
    (param "self" (borrow $output-stream)) (param "src" (borrow $input-stream)) (param "len" u64)
    (result (result u64 (error $stream-error)))))
  (export "[method]output-stream.blocking-splice" (func
    (param "self" (borrow $output-stream)) (param "src" (borrow $input-stream)) (param "len" u64)
    (result (result u64 (error $stream-error)))))
))
(alias export $streams "input-stream" (type $input-stream))
(alias export $streams "output-stream" (type $output-stream))

(import "wasi:cli/environment@0.2.4" (instance $environment
  (export "get-environment" (func (result (list (tuple string string)))))
))
(import "wasi:cli/exit@0.2.4" (instance $exit
  (export "exit" (func (param "status" (result))))
  (export "exit-with-code" (func (param "status-code" u8)))
))
(import "wasi:cli/stdout@0.2.4" (instance $stdout
  (alias outer $world $output-stream (type $outer-output-stream))
  (export "output-stream" (type $output-stream (eq $outer-output-stream)))
  (export "get-stdout" (func (result (own $output-stream))))
))
(import "wasi:cli/stderr@0.2.4" (instance $stderr
  (alias outer $world $output-stream (type $outer-output-stream))
  (export "output-stream" (type $output-stream (eq $outer-output-stream)))
  (export "get-stderr" (func (result (own $output-stream))))
))
(import "wasi:clocks/wall-clock@0.2.4" (instance $wall-clock
  (type $datetime-fields (record (field "seconds" u64) (field "nanoseconds" u32)))
  (export "datetime" (type $datetime (eq $datetime-fields)))
  (export "now" (func (result $datetime)))
))
(import "wasi:random/random@0.2.4" (instance $random
  (export "get-random-bytes" (func (param "len" u64) (result (list u8))))
))

(import "wasi:http/types@0.2.4" (instance $http
  (alias outer $world $duration (type $outer-duration))
  (export "duration" (type $duration (eq $outer-duration)))
  (alias outer $world $input-stream (type $outer-input-stream))
  (export "input-stream" (type $input-stream (eq $outer-input-stream)))
  (alias outer $world $output-stream (type $outer-output-stream))
  (export "output-stream" (type $output-stream (eq $outer-output-stream)))
  (alias outer $world $pollable (type $outer-pollable))
  (alias outer $world $error (type $outer-error))
  (export "io-error" (type $io-error (eq $outer-error)))
  (export "pollable" (type $pollable (eq $outer-pollable)))

  (type $method-cases (variant
    (case "get") (case "head") (case "post") (case "put") (case "delete") (case "connect")
    (case "options") (case "trace") (case "patch") (case "other" string)))
  (export "method" (type $method (eq $method-cases)))
  (type $scheme-cases (variant (case "HTTP") (case "HTTPS") (case "other" string)))
  (export "scheme" (type $scheme (eq $scheme-cases)))
  (type $dns-error-fields (record (field "rcode" (option string)) (field "info-code" (option u16))))
  (export "DNS-error-payload" (type $dns-error (eq $dns-error-fields)))
  (type $tls-alert-fields (record
    (field "alert-id" (option u8)) (field "alert-message" (option string))))
  (export "TLS-alert-received-payload" (type $tls-alert (eq $tls-alert-fields)))
  (type $field-size-fields (record
    (field "field-name" (option string)) (field "field-size" (option u32))))
  (export "field-size-payload" (type $field-size (eq $field-size-fields)))
  (type $error-code-cases (variant
    (case "DNS-timeout")
    (case "DNS-error" $dns-error)
    (case "destination-not-found")
    (case "destination-unavailable")
    (case "destination-IP-prohibited")
    (case "destination-IP-unroutable")
    (case "connection-refused")
    (case "connection-terminated")
    (case "connection-timeout")
    (case "connection-read-timeout")
    (case "connection-write-timeout")
    (case "connection-limit-reached")
    (case "TLS-protocol-error")
    (case "TLS-certificate-error")
    (case "TLS-alert-received" $tls-alert)
    (case "HTTP-request-denied")
    (case "HTTP-request-length-required")
    (case "HTTP-request-body-size" (option u64))
    (case "HTTP-request-method-invalid")
    (case "HTTP-request-URI-invalid")
    (case "HTTP-request-URI-too-long")
    (case "HTTP-request-header-section-size" (option u32))
    (case "HTTP-request-header-size" (option $field-size))
    (case "HTTP-request-trailer-section-size" (option u32))
    (case "HTTP-request-trailer-size" $field-size)
    (case "HTTP-response-incomplete")
    (case "HTTP-response-header-section-size" (option u32))
    (case "HTTP-response-header-size" $field-size)
    (case "HTTP-response-body-size" (option u64))
    (case "HTTP-response-trailer-section-size" (option u32))
    (case "HTTP-response-trailer-size" $field-size)
    (case "HTTP-response-transfer-coding" (option string))
    (case "HTTP-response-content-coding" (option string))
    (case "HTTP-response-timeout")
    (case "HTTP-upgrade-failed")
    (case "HTTP-protocol-error")
    (case "loop-detected")
    (case "configuration-error")
    (case "internal-error" (option string))))
  (export "error-code" (type $error-code (eq $error-code-cases)))
  (type $header-error-cases (variant (case "invalid-syntax") (case "forbidden") (case "immutable")))
  (export "header-error" (type $header-error (eq $header-error-cases)))

  (type $field-key-text string)
  (export "field-key" (type $field-key (eq $field-key-text)))
  (export "field-name" (type $field-name (eq $field-key)))
  (type $field-value-bytes (list u8))
  (export "field-value" (type $field-value (eq $field-value-bytes)))
  (export "fields" (type $fields (sub resource)))
  (export "headers" (type $headers (eq $fields)))
  (export "trailers" (type $trailers (eq $fields)))
  (export "incoming-request" (type $incoming-request (sub resource)))
  (export "outgoing-request" (type $outgoing-request (sub resource)))
  (export "request-options" (type $request-options (sub resource)))
  (export "response-outparam" (type $response-outparam (sub resource)))
  (type $status-code-number u16)
  (export "status-code" (type $status-code (eq $status-code-number)))
  (export "incoming-response" (type $incoming-response (sub resource)))
  (export "incoming-body" (type $incoming-body (sub resource)))
  (export "future-trailers" (type $future-trailers (sub resource)))
  (export "outgoing-response" (type $outgoing-response (sub resource)))
  (export "outgoing-body" (type $outgoing-body (sub resource)))
  (export "future-incoming-response" (type $future-incoming-response (sub resource)))

  (export "http-error-code" (func (param "err" (borrow $io-error)) (result (option $error-code))))

  (export "[constructor]fields" (func (result (own $fields))))
  (export "[static]fields.from-list" (func
    (param "entries" (list (tuple $field-name $field-value)))
    (result (result (own $fields) (error $header-error)))))
  (export "[method]fields.get" (func
    (param "self" (borrow $fields)) (param "name" $field-name)
    (result (list $field-value))))
  (export "[method]fields.has" (func
    (param "self" (borrow $fields)) (param "name" $field-name)
    (result bool)))
  (export "[method]fields.set" (func
    (param "self" (borrow $fields)) (param "name" $field-name) (param "value" (list $field-value))
    (result (result (error $header-error)))))
  (export "[method]fields.delete" (func
    (param "self" (borrow $fields)) (param "name" $field-name)
    (result (result (error $header-error)))))
  (export "[method]fields.append" (func
    (param "self" (borrow $fields)) (param "name" $field-name) (param "value" $field-value)
    (result (result (error $header-error)))))
  (export "[method]fields.entries" (func
    (param "self" (borrow $fields))
    (result (list (tuple $field-name $field-value)))))
  (export "[method]fields.clone" (func (param "self" (borrow $fields)) (result (own $fields))))

  (export "[method]incoming-request.method" (func
    (param "self" (borrow $incoming-request))
    (result $method)))
  (export "[method]incoming-request.path-with-query" (func
    (param "self" (borrow $incoming-request))
    (result (option string))))
  (export "[method]incoming-request.scheme" (func
    (param "self" (borrow $incoming-request))
    (result (option $scheme))))
  (export "[method]incoming-request.authority" (func
    (param "self" (borrow $incoming-request))
    (result (option string))))
  (export "[method]incoming-request.headers" (func
    (param "self" (borrow $incoming-request))
    (result (own $headers))))
  (export "[method]incoming-request.consume" (func
    (param "self" (borrow $incoming-request))
    (result (result (own $incoming-body)))))

  (export "[constructor]outgoing-request" (func
    (param "headers" (own $headers))
    (result (own $outgoing-request))))
  (export "[method]outgoing-request.body" (func
    (param "self" (borrow $outgoing-request))
    (result (result (own $outgoing-body)))))
  (export "[method]outgoing-request.method" (func
    (param "self" (borrow $outgoing-request))
    (result $method)))
  (export "[method]outgoing-request.set-method" (func
    (param "self" (borrow $outgoing-request)) (param "method" $method)
    (result (result))))
  (export "[method]outgoing-request.path-with-query" (func
    (param "self" (borrow $outgoing-request))
    (result (option string))))
  (export "[method]outgoing-request.set-path-with-query" (func
    (param "self" (borrow $outgoing-request)) (param "path-with-query" (option string))
    (result (result))))
  (export "[method]outgoing-request.scheme" (func
    (param "self" (borrow $outgoing-request))
    (result (option $scheme))))
  (export "[method]outgoing-request.set-scheme" (func
    (param "self" (borrow $outgoing-request)) (param "scheme" (option $scheme))
    (result (result))))
  (export "[method]outgoing-request.authority" (func
    (param "self" (borrow $outgoing-request))
    (result (option string))))
  (export "[method]outgoing-request.set-authority" (func
    (param "self" (borrow $outgoing-request)) (param "authority" (option string))
    (result (result))))
  (export "[method]outgoing-request.headers" (func
    (param "self" (borrow $outgoing-request))
    (result (own $headers))))

  (export "[constructor]request-options" (func (result (own $request-options))))
  (export "[method]request-options.connect-timeout" (func
    (param "self" (borrow $request-options))
    (result (option $duration))))
  (export "[method]request-options.set-connect-timeout" (func
    (param "self" (borrow $request-options)) (param "duration" (option $duration))
    (result (result))))
  (export "[method]request-options.first-byte-timeout" (func
    (param "self" (borrow $request-options))
    (result (option $duration))))
  (export "[method]request-options.set-first-byte-timeout" (func
    (param "self" (borrow $request-options)) (param "duration" (option $duration))
    (result (result))))
  (export "[method]request-options.between-bytes-timeout" (func
    (param "self" (borrow $request-options))
    (result (option $duration))))
  (export "[method]request-options.set-between-bytes-timeout" (func
    (param "self" (borrow $request-options)) (param "duration" (option $duration))
    (result (result))))

  (export "[static]response-outparam.set" (func
    (param "param" (own $response-outparam))
    (param "response" (result (own $outgoing-response) (error $error-code)))))

  (export "[method]incoming-response.status" (func
    (param "self" (borrow $incoming-response))
    (result $status-code)))
  (export "[method]incoming-response.headers" (func
    (param "self" (borrow $incoming-response))
    (result (own $headers))))
  (export "[method]incoming-response.consume" (func
    (param "self" (borrow $incoming-response))
    (result (result (own $incoming-body)))))
  (export "[method]incoming-body.stream" (func
    (param "self" (borrow $incoming-body))
    (result (result (own $input-stream)))))
  (export "[static]incoming-body.finish" (func
    (param "this" (own $incoming-body))
    (result (own $future-trailers))))
  (export "[method]future-trailers.subscribe" (func
    (param "self" (borrow $future-trailers))
    (result (own $pollable))))
  (export "[method]future-trailers.get" (func
    (param "self" (borrow $future-trailers))
    (result (option (result (result (option (own $trailers)) (error $error-code)))))))

  (export "[constructor]outgoing-response" (func
    (param "headers" (own $headers))
    (result (own $outgoing-response))))
  (export "[method]outgoing-response.status-code" (func
    (param "self" (borrow $outgoing-response))
    (result $status-code)))
  (export "[method]outgoing-response.set-status-code" (func
    (param "self" (borrow $outgoing-response)) (param "status-code" $status-code)
    (result (result))))
  (export "[method]outgoing-response.headers" (func
    (param "self" (borrow $outgoing-response))
    (result (own $headers))))
  (export "[method]outgoing-response.body" (func
    (param "self" (borrow $outgoing-response))
    (result (result (own $outgoing-body)))))
  (export "[method]outgoing-body.write" (func
    (param "self" (borrow $outgoing-body))
    (result (result (own $output-stream)))))
  (export "[static]outgoing-body.finish" (func
    (param "this" (own $outgoing-body)) (param "trailers" (option (own $trailers)))
    (result (result (error $error-code)))))

  (export "[method]future-incoming-response.subscribe" (func
    (param "self" (borrow $future-incoming-response))
    (result (own $pollable))))
  (export "[method]future-incoming-response.get" (func
    (param "self" (borrow $future-incoming-response))
    (result (option (result (result (own $incoming-response) (error $error-code)))))))
))
(alias export $http "incoming-request" (type $incoming-request))
(alias export $http "response-outparam" (type $response-outparam))
(alias export $http "outgoing-request" (type $outgoing-request))
(alias export $http "request-options" (type $request-options))
(alias export $http "future-incoming-response" (type $future-incoming-response))
(alias export $http "error-code" (type $error-code))

(import "wasi:http/outgoing-handler@0.2.4" (instance $outgoing-handler
  (alias outer $world $outgoing-request (type $outer-outgoing-request))
  (export "outgoing-request" (type $outgoing-request (eq $outer-outgoing-request)))
  (alias outer $world $request-options (type $outer-request-options))
  (export "request-options" (type $request-options (eq $outer-request-options)))
  (alias outer $world $future-incoming-response (type $outer-future))
  (export "future-incoming-response" (type $future (eq $outer-future)))
  (alias outer $world $error-code (type $outer-error-code))
  (export "error-code" (type $error-code (eq $outer-error-code)))
  (export "handle" (func
    (param "request" (own $outgoing-request)) (param "options" (option (own $request-options)))
    (result (result (own $future) (error $error-code)))))
))
