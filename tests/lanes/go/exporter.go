// Does what OpenTelemetry's OTLP/HTTP exporter of logs does over net/http, by hand: its address from the
// environment, a transport and a time limit of its own, a goroutine that waits for a batch, protobuf in gzip
// without a length. The packages themselves are not here.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"svc/guest"
)

var transport = &http.Transport{
	Proxy:                 http.ProxyFromEnvironment,
	DialContext:           (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
	ForceAttemptHTTP2:     true,
	MaxIdleConns:          100,
	IdleConnTimeout:       90 * time.Second,
	ExpectContinueTimeout: time.Second,
}

type exporter struct {
	client   *http.Client
	records  chan []byte
	flushing chan chan error
}

func newExporter() *exporter {
	e := &exporter{&http.Client{Transport: transport, Timeout: 10 * time.Second}, make(chan []byte, 2048), make(chan chan error)}
	go e.run()
	return e
}

func (e *exporter) run() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			e.export()
		case done := <-e.flushing:
			done <- e.export()
		}
	}
}

func (e *exporter) flush(ctx context.Context) error {
	done := make(chan error)
	select {
	case e.flushing <- done:
		return <-done
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *exporter) export() error {
	var scope []byte
	for len(e.records) > 0 {
		scope = append(scope, field(2, <-e.records)...)
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	writer.Write(field(1, field(2, append(field(1, field(1, []byte("shop"))), scope...))))
	writer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequest(http.MethodPost, os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+"/v1/logs", http.NoBody)
	if err != nil {
		return err
	}
	request = request.Clone(ctx)
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "gzip")
	request.ContentLength = -1
	request.Body = io.NopCloser(&packed)
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != 200 || len(answer) != 0) {
		err = fmt.Errorf("%s %q", response.Status, answer)
	}
	return err
}

// record returns a LogRecord: severity_number, body, and one attribute.
func record(severity byte, body, key string, value uint64) []byte {
	attribute := append(field(1, []byte(key)), field(2, binary.AppendUvarint([]byte{3 << 3}, value))...)
	return append(append([]byte{2 << 3, severity}, field(5, field(1, []byte(body)))...), field(6, attribute)...)
}

// field returns a field whose value has a length.
func field(number byte, value []byte) []byte {
	return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(value))), value...)
}

func main() {
	logs := newExporter()
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		logs.records <- record(13, "slow order", "order", 42)
		for n := range 600 {
			logs.records <- record(9, fmt.Sprint("number ", n), "n", uint64(n))
		}
		if err := logs.flush(r.Context()); err != nil {
			panic(err)
		}
		fmt.Fprint(w, "hello")
	})
	guest.Serve(nil)
}
