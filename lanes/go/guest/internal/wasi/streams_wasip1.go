package wasi

import (
	"context"
	"errors"
	"io"
	"unsafe"
)

// readSize is the maximum size of one read, in bytes.
const readSize = 65536

// ErrGone reports that the reader of a stream has disconnected.
var ErrGone = errors.New("the other side disconnected")

// ErrBroken reports that a body is incomplete.
var ErrBroken = errors.New("the body is incomplete")

// Reader reads an incoming body: an io.ReadCloser.
type Reader struct {
	ctx    context.Context
	body   int32
	stream int32
	buffer []byte
	rest   []byte
	err    error
	done   func()
}

func newReader(ctx context.Context, body int32, done func()) *Reader {
	incomingBodyStream(body, results())
	return &Reader{ctx: ctx, body: body, stream: int32At(4), done: done}
}

// Read reads the available bytes, and waits if there are none.
func (r *Reader) Read(to []byte) (int, error) {
	if len(to) == 0 {
		return 0, nil
	}
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if n := r.fill(to, true); n > 0 {
			return n, nil
		}
		if r.err == nil && len(r.rest) == 0 {
			if err := wait(r.ctx, inputSubscribe(r.stream)); err != nil {
				r.err = err
			}
		}
	}
	n := copy(to, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Empty reports whether the body is known to be at its end, without waiting.
func (r *Reader) Empty() bool {
	if r.err == nil && len(r.rest) == 0 {
		r.fill(nil, false)
	}
	return r.err == io.EOF && len(r.rest) == 0
}

// fill reads once: into a large slice of the caller directly, else into a buffer. It waits only if that is permitted
// and no other goroutine could run meanwhile.
func (r *Reader) fill(to []byte, patient bool) int {
	direct := len(to) >= readSize/16
	if !direct {
		if r.buffer == nil {
			r.buffer = make([]byte, readSize)
		}
		to = r.buffer
	}
	size := min(len(to), readSize)
	into(unsafe.Pointer(&to[0]), uint32(size))
	if patient && alone(r.ctx) {
		inputBlockingRead(r.stream, uint64(size), results())
	} else {
		inputRead(r.stream, uint64(size), results())
	}
	failed, pointer, count := byteAt(0) != 0, uint32At(4), uint32At(8)
	into(nil, 0)
	if failed {
		r.err = streamError(4, io.EOF)
		return 0
	}
	if count == 0 {
		return 0
	}
	if pointer != uint32(uintptr(unsafe.Pointer(&to[0]))) {
		copy(to, hosted(pointer, count))
	}
	if direct {
		return int(count)
	}
	r.rest = to[:count]
	return 0
}

// Close releases the body and discards its unread part.
func (r *Reader) Close() error {
	if r.stream == 0 {
		return nil
	}
	inputDrop(r.stream)
	incomingBodyDrop(r.body)
	r.stream, r.rest, r.err = 0, nil, errors.New("the body was closed")
	if r.done != nil {
		r.done()
	}
	return nil
}

// streamError reads a stream-error; closed is the error for the end of the stream.
func streamError(offset uintptr, closed error) error {
	if byteAt(offset) != 0 {
		return closed
	}
	errorDrop(int32At(offset + 4))
	return ErrBroken
}

// Writer writes an outgoing body: an io.Writer. Flush sends the written bytes at once.
type Writer struct {
	ctx    context.Context
	body   int32
	stream int32
}

func newWriter(ctx context.Context, body int32) *Writer {
	outgoingBodyWrite(body, results())
	return &Writer{ctx: ctx, body: body, stream: int32At(4)}
}

// room waits until bytes can be written and returns how many.
func (w *Writer) room() (uint64, error) {
	for {
		outputCheckWrite(w.stream, results())
		if byteAt(0) != 0 {
			return 0, streamError(8, ErrGone)
		}
		if room := uint64At(8); room > 0 {
			return room, nil
		}
		if err := wait(w.ctx, outputSubscribe(w.stream)); err != nil {
			return 0, err
		}
	}
}

// Write writes all bytes, and waits while the reader is slow.
func (w *Writer) Write(from []byte) (int, error) {
	written := 0
	for written < len(from) {
		room, err := w.room()
		if err != nil {
			return written, err
		}
		size := uint32(min(room, uint64(len(from)-written)))
		outputWrite(w.stream, unsafe.Pointer(&from[written]), size, results())
		if byteAt(0) != 0 {
			return written, streamError(4, ErrGone)
		}
		written += int(size)
	}
	return written, nil
}

// Flush waits until the host has accepted the written bytes.
func (w *Writer) Flush() error {
	outputFlush(w.stream, results())
	if byteAt(0) != 0 {
		return streamError(4, ErrGone)
	}
	_, err := w.room()
	return err
}

// Finish completes the body. The host accepts trailers, and logs that it does not send
// them.
func (w *Writer) Finish(trailers []Header) error {
	outputDrop(w.stream)
	given, fields := int32(0), int32(0)
	if len(trailers) > 0 {
		if made, ok := newFields(trailers); ok {
			given, fields = 1, made
		}
	}
	outgoingBodyFinish(w.body, given, fields, results())
	if byteAt(0) != 0 {
		return errorCode(8)
	}
	return nil
}

// Abort closes the body as incomplete.
func (w *Writer) Abort() {
	outputDrop(w.stream)
	outgoingBodyDrop(w.body)
}
