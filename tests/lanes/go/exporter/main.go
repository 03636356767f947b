// The OTLP/HTTP exporter of logs that OpenTelemetry publishes, with the endpoint that the query names.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"svc/guest"
)

// newProvider returns a provider whose exporter uses the endpoint as it is, or as a base of the environment.
func newProvider(asItIs bool) *sdklog.LoggerProvider {
	options := []otlploghttp.Option{otlploghttp.WithCompression(otlploghttp.GzipCompression)}
	if asItIs {
		options = append(options, otlploghttp.WithEndpointURL(os.Getenv("SVC_TELEMETRY_ENDPOINT")))
	}
	exporter, err := otlploghttp.New(context.Background(), options...)
	if err != nil {
		panic(err)
	}
	return sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)))
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		provider := newProvider(r.URL.Query().Get("endpoint") == "as-it-is")
		logger := provider.Logger("shop")
		var record log.Record
		record.SetSeverity(log.SeverityWarn)
		record.SetBody(log.StringValue("slow order"))
		record.AddAttributes(log.Int("order", 42))
		logger.Emit(r.Context(), record)
		for n := range 600 {
			var record log.Record
			record.SetSeverity(log.SeverityDebug)
			record.SetBody(log.StringValue(fmt.Sprint("number ", n)))
			logger.Emit(r.Context(), record)
		}
		if err := provider.ForceFlush(r.Context()); err != nil {
			panic(err)
		}
		fmt.Fprint(w, "hello")
	})
	guest.Serve(nil)
}
