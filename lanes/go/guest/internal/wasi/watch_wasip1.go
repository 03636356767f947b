package wasi

import (
	"context"
	"sync"
)

// watching is a context whose waiters learn of the client's disconnect.
type watching struct {
	context.Context
	begin func()
}

func (w watching) Done() <-chan struct{} {
	w.begin()
	return w.Context.Done()
}

// Watching returns a context which, from the first call of Done, asks the host to report the client's disconnect, and
// then calls gone with ErrGone. Programs that never wait for the context make no call of the host for it.
func Watching(ctx context.Context, gone func(error)) context.Context {
	request := Outgoing{Method: "GET", Authority: "client.svc.internal", Path: "/"}
	return watching{ctx, sync.OnceFunc(func() {
		go func() {
			if _, err := Send(ctx, request); err == nil {
				gone(ErrGone)
			}
		}()
	})}
}
