package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"svc/guest/lite"
)

// Error is what the tables say of a statement that they refuse.
type Error struct {
	// Status is the HTTP status of the answer: 4xx for what the program can change.
	Status int
	// Code names the kind of error: "sql-error", "constraint", "bad-parameters" and so on.
	Code string
	// Constraint is the rule that a row breaks, when Code is "constraint": "unique", "primary-key", "not-null",
	// "check", "foreign-key", "type" or "trigger".
	Constraint string
	// Title and Detail tell in words what is wrong; Detail has SQLite's own.
	Title  string
	Detail string
	// Hint says what to do, when there is something.
	Hint string
	// Position is where in the SQL it is, counted in characters from 1; without a place it is 0.
	Position int
	// Statement is the number of the statement in a Batch, from 0; otherwise it is -1.
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

func ask(ctx context.Context, path string, question question, answer answer) error {
	endpoint := os.Getenv("SVC_TABLES_ENDPOINT")
	if endpoint == "" {
		return errors.New("tables: SVC_TABLES_ENDPOINT is not set: this program is not hosted by svc")
	}
	body, err := question.appendJSON(make([]byte, 0, 256))
	if err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	response, err := lite.Fetch(ctx, lite.Outgoing{
		Method:  "POST",
		URL:     strings.TrimSuffix(endpoint, "/") + path,
		Headers: headers,
		Body:    bytes.NewReader(body),
	})
	if err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("tables: the answer broke off: %w", err)
	}
	if response.Status != 200 {
		return refused(response.Status, said)
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("tables: the rows do not fit: %w", err)
	}
	return answer.finish()
}

func refused(status int, said []byte) error {
	refusal := &Error{Statement: -1}
	if json.Unmarshal(said, refusal) != nil || refusal.Title == "" {
		refusal = &Error{Title: fmt.Sprintf("the answer has status %d", status), Statement: -1}
	}
	refusal.Status = status
	return refusal
}
