package guest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"svc/guest/internal/sse"
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

// NewEvents starts an event stream. Each event is sent at once.
func NewEvents(w http.ResponseWriter) *Events {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return &Events{w, http.NewResponseController(w).Flush}
}

// Send sends an event. It fails if the client has disconnected, or if Data cannot be encoded as JSON.
func (e *Events) Send(event Event) error {
	data, err := eventData(event.Data)
	if err != nil {
		return err
	}
	return e.write(sse.Event(event.ID, event.Name, data, event.Retry))
}

// Comment sends lines that clients ignore. They prevent an idle timeout of the connection.
func (e *Events) Comment(comment string) error { return e.write(sse.Comment(comment)) }

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

func (e *Events) write(text string) error {
	if _, err := io.WriteString(e.writer, text); err != nil {
		return err
	}
	return e.flush()
}
