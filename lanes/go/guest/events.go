package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// An Event is one message of an event stream (HTML Living Standard, 9.2). Data that is a string or []byte is
// sent as it is, anything else as JSON.
type Event struct {
	ID    string
	Name  string
	Data  any
	Retry time.Duration
}

// Events is the response to one EventSource.
type Events struct {
	writer http.ResponseWriter
	flush  func() error
}

// NewEvents begins an event stream. Each event leaves at once.
func NewEvents(w http.ResponseWriter) *Events {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return &Events{w, http.NewResponseController(w).Flush}
}

// Send sends an event. An error tells that the client is gone, or that Data has no JSON.
func (e *Events) Send(event Event) error {
	data, err := eventData(event.Data)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if event.ID != "" {
		writeField(&text, "id", event.ID)
	}
	if event.Name != "" {
		writeField(&text, "event", event.Name)
	}
	if event.Retry > 0 {
		writeField(&text, "retry", strconv.FormatInt(event.Retry.Milliseconds(), 10))
	}
	for _, line := range strings.Split(lines.Replace(data), "\n") {
		text.WriteString("data: " + line + "\n")
	}
	return e.write(&text)
}

// Comment sends a line that clients ignore: it keeps a connection open that has nothing to say.
func (e *Events) Comment(comment string) error {
	var text bytes.Buffer
	for _, line := range strings.Split(lines.Replace(comment), "\n") {
		text.WriteString(": " + line + "\n")
	}
	return e.write(&text)
}

// lines makes all three of the format's line ends one.
var lines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func writeField(text *bytes.Buffer, name, value string) {
	value, _, _ = strings.Cut(lines.Replace(value), "\n")
	text.WriteString(name + ": " + value + "\n")
}

func eventData(data any) (string, error) {
	switch data := data.(type) {
	case nil:
		return "", nil
	case string:
		return data, nil
	case []byte:
		return string(data), nil
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		return "", fmt.Errorf("an event's data: %w", err)
	}
	return string(encoded), nil
}

func (e *Events) write(text *bytes.Buffer) error {
	text.WriteByte('\n')
	if _, err := e.writer.Write(text.Bytes()); err != nil {
		return err
	}
	return e.flush()
}
