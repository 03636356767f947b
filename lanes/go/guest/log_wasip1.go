package guest

import (
	"context"
	"net/url"
	"os"
	"strconv"
	"strings"

	"svc/guest/internal/wasi"
)

// openDoor returns the telemetry Door, or nil without one.
func openDoor() *batch {
	endpoint, err := url.Parse(os.Getenv("SVC_TELEMETRY_ENDPOINT"))
	if err != nil || endpoint.Host == "" {
		return nil
	}
	return &batch{send: func(document []byte) {
		// A closed stream is not an error here.
		_ = wasi.Post(context.Background(), wasi.Outgoing{
			Method:    "POST",
			Secure:    endpoint.Scheme == "https",
			Authority: endpoint.Host,
			Path:      strings.TrimSuffix(endpoint.Path, "/") + "/v1/logs",
			Headers: []wasi.Header{
				{Name: "content-type", Value: "application/json"},
				{Name: "content-length", Value: strconv.Itoa(len(document))},
			},
		}, document)
	}}
}
