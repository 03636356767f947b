// Package door sends requests to the Doors of svc.
package door

import (
	"context"
	"fmt"
	"os"
	"strings"

	"svc/guest/lite"
)

// Send sends a request whose URL is a path of the Door at the address in a variable. Errors begin with the name of the
// package that sends.
func Send(ctx context.Context, sender, variable string, request lite.Outgoing) (*lite.Incoming, error) {
	endpoint := os.Getenv(variable)
	if endpoint == "" {
		return nil, fmt.Errorf("%s: %s is not set: this program is not hosted by svc", sender, variable)
	}
	request.URL = strings.TrimSuffix(endpoint, "/") + request.URL
	response, err := lite.Fetch(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sender, err)
	}
	return response, nil
}
