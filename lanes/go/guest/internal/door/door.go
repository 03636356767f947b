// Package door sends requests to the Doors of svc.
package door

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"svc/guest/lite"
)

// Error is a request that a Door refused. It is fs.ErrNotExist, fs.ErrExist or fs.ErrInvalid for errors.Is, if its code
// is "not-found", "precondition" or "bad-key".
type Error struct {
	// Status is the HTTP status of the response.
	Status int
	// Code names the reason: "bad-request", "storage-quota", "jobs-full" and so on.
	Code   string
	Detail string
	Hint   string
	sender string
}

func (e *Error) Error() string { return e.sender + ": " + e.Detail }

// Is returns whether the error is one of package io/fs.
func (e *Error) Is(target error) bool {
	return target == fs.ErrNotExist && e.Code == "not-found" || target == fs.ErrExist && e.Code == "precondition" ||
		target == fs.ErrInvalid && e.Code == "bad-key"
}

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

// Open sends a request and returns the response. If the Door refuses it, the error is an *Error.
func Open(ctx context.Context, sender, variable string, request lite.Outgoing) (*lite.Incoming, error) {
	response, err := Send(ctx, sender, variable, request)
	if err != nil || response.Status < 300 {
		return response, err
	}
	defer response.Body.Close()
	refusal := &Error{sender: sender}
	if json.NewDecoder(response.Body).Decode(refusal) != nil || refusal.Detail == "" {
		refusal.Detail = fmt.Sprintf("the response has status %d", response.Status)
	}
	refusal.Status = response.Status
	return nil, refusal
}

// Ask sends a request and decodes the response, unless answer is nil. Errors are those of Open.
func Ask(ctx context.Context, sender, variable string, request lite.Outgoing, answer any) error {
	response, err := Open(ctx, sender, variable, request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("%s: the response is incomplete: %w", sender, err)
	}
	return nil
}

// Post sends a document and decodes the response. Errors are those of Open.
func Post(ctx context.Context, sender, variable, path string, document, answer any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("%s: %w", sender, err)
	}
	return Ask(ctx, sender, variable, lite.Outgoing{Method: "POST", URL: path, Body: bytes.NewReader(body)}, answer)
}
