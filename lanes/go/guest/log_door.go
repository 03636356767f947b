package guest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"svc/guest/internal/otlp"
)

const (
	fullBatch = 8 << 10 // maximum size of a batch in bytes
	oldBatch  = 20 * time.Millisecond
)

const (
	documentHead = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[`
	documentTail = `]}]}]}`
)

// door is the telemetry Door, or nil.
var door = openDoor()

// A batch holds records, encoded, until they are sent.
type batch struct {
	send func(document []byte)

	mutex   sync.Mutex
	records []byte
	since   time.Time
}

func (b *batch) add(record slog.Record, attributes []otlp.Attribute) {
	if record.Time.IsZero() {
		record.Time = time.Now()
	}
	b.mutex.Lock()
	if len(b.records) == 0 {
		b.records = append(b.records, documentHead...)
		b.since = record.Time
		time.AfterFunc(oldBatch, b.flush)
	} else {
		b.records = append(b.records, ',')
	}
	b.records = otlp.AppendRecord(b.records, record.Time, int(record.Level), record.Message, attributes)
	due := record.Level >= slog.LevelError || len(b.records) >= fullBatch || record.Time.Sub(b.since) >= oldBatch
	b.mutex.Unlock()
	if due {
		b.flush()
	}
}

// flush sends the batch to the Door, which has received it when this returns.
func (b *batch) flush() {
	b.mutex.Lock()
	records := b.records
	b.records = nil
	b.mutex.Unlock()
	if len(records) > 0 {
		b.send(append(records, documentTail...))
	}
}

// doorHandler is the slog.Handler that sends records to the Door. Names of groups become parts of keys: "a.b".
type doorHandler struct {
	level  slog.Leveler
	prefix string
	with   []otlp.Attribute
}

func (h *doorHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

func (h *doorHandler) Handle(_ context.Context, record slog.Record) error {
	attributes := slices.Clip(h.with)
	record.Attrs(func(attribute slog.Attr) bool {
		attributes = otlp.AppendAttribute(attributes, h.prefix, attribute)
		return true
	})
	door.add(record, attributes)
	return nil
}

func (h *doorHandler) WithAttrs(given []slog.Attr) slog.Handler {
	more := *h
	more.with = slices.Clip(h.with)
	for _, attribute := range given {
		more.with = otlp.AppendAttribute(more.with, h.prefix, attribute)
	}
	return &more
}

func (h *doorHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	more := *h
	more.prefix += name + "."
	return &more
}
