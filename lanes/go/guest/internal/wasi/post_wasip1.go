package wasi

import "context"

// Post sends a request with a complete body, and does not wait for the response. The host has received all of
// it when this returns.
func Post(ctx context.Context, request Outgoing, body []byte) error {
	future, handle, err := begin(ctx, request)
	if err != nil {
		return err
	}
	defer futureDrop(future)
	writer := newWriter(ctx, handle)
	if _, err := writer.Write(body); err != nil {
		writer.Abort()
		return err
	}
	return writer.Finish(nil)
}
