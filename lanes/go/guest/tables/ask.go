package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"svc/guest/internal/door"
	"svc/guest/lite"
)

// Error is the tables' error for a rejected statement.
type Error struct {
	// Status is the HTTP status of the response: 4xx for errors of the program.
	Status int
	// Code names the kind of error: "sql-error", "constraint", "bad-parameters" and so on.
	Code string
	// Constraint is the rule that a row breaks, when Code is "constraint": "unique", "primary-key", "not-null",
	// "check", "foreign-key", "type" or "trigger".
	Constraint string
	// Title and Detail describe the error; Detail has SQLite's message.
	Title  string
	Detail string
	// Hint is the remedy, if there is one.
	Hint string
	// Position is the error's position in the SQL, in characters from 1, or 0 if unknown.
	Position int
	// Statement is the index of the statement in a Batch, from 0; otherwise -1.
	Statement int
}

func (e *Error) Error() string {
	text := "tables: " + e.Title
	if e.Detail != "" {
		text = "tables: " + e.Detail
	}
	if e.Statement >= 0 {
		text += fmt.Sprintf(", in statement %d", e.Statement+1)
	}
	if e.Position > 0 {
		text += fmt.Sprintf(", at position %d of the SQL", e.Position)
	}
	return text
}

type question interface {
	appendJSON(to []byte) ([]byte, error)
}

var headers = []lite.Header{{Name: "content-type", Value: "application/json"}}

type answer interface {
	finish() error
}

// option is the name of a member of a request whose value is in the context.
type option string

// WithIdempotencyKey returns a context for one Exec or Batch, which is then applied once: a repeated request with that
// key and the same statements gets the stored answer. The key has at most 255 characters.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, option("idempotency_key"), key)
}

// WithStaleOK returns a context whose reads may miss the last writes of other machines of a fleet, instead of waiting.
func WithStaleOK(ctx context.Context, ok bool) context.Context {
	return context.WithValue(ctx, option("stale_ok"), ok)
}

func ask(ctx context.Context, path string, question question, answer answer) error {
	body, err := question.appendJSON(make([]byte, 0, 256))
	for _, name := range []option{"idempotency_key", "stale_ok"} {
		if value := ctx.Value(name); value != nil && err == nil {
			if body, err = appendParam(append(body[:len(body)-1], `,"`+name+`":`...), value); err != nil {
				err = fmt.Errorf("%s %w", name, err)
			}
			body = append(body, '}')
		}
	}
	if err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	response, err := door.Send(ctx, "tables", "SVC_TABLES_ENDPOINT", lite.Outgoing{
		Method:  "POST",
		URL:     path,
		Headers: headers,
		Body:    bytes.NewReader(body),
	})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("tables: the response is incomplete: %w", err)
	}
	if response.Status != 200 {
		return refused(response.Status, content)
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return fmt.Errorf("tables: the rows do not fit: %w", err)
	}
	return answer.finish()
}

func refused(status int, content []byte) error {
	refusal := &Error{Statement: -1}
	if json.Unmarshal(content, refusal) != nil || refusal.Title == "" {
		refusal = &Error{Title: fmt.Sprintf("the response has status %d", status), Statement: -1}
	}
	refusal.Status = status
	return refusal
}
