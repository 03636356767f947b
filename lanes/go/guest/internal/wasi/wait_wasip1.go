package wasi

import (
	"context"
	"errors"
	"os"
	"time"
)

// firstPollable is the file descriptor of the pollable with handle 0: from here on, the adapter treats
// descriptors as pollables.
const firstPollable = 0x10000

// alone reports whether the whole instance may wait in a call of the host: no other goroutine can run, and the
// context has not ended.
func alone(ctx context.Context) bool {
	methods, known := withAdded()
	return known && ctx.Err() == nil && methods.Alone()
}

// wait returns when the pollable is ready, or with the context's error if that ends first. It drops the
// pollable. Other goroutines run meanwhile: if there are any, the pollable waits in Go's network poller.
func wait(ctx context.Context, pollable int32) error {
	defer pollableDrop(pollable)
	if alone(ctx) {
		pollableBlock(pollable)
		return nil
	}
	file := os.NewFile(uintptr(firstPollable+pollable), "pollable")
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	asked := false
	err = raw.Read(func(uintptr) bool {
		ready := asked
		asked = true
		return ready
	})
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
