package tables

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// Raw is the result of a statement with the values that SQLite stores: nil, int64, float64, string, or []byte for a
// blob. Booleans are 0 and 1, timestamps and documents of json columns are text.
type Raw struct {
	Result
	Columns []string
	Values  [][]any
}

// QueryRaw returns the rows of a query, or of the RETURNING clause of a statement that writes.
func QueryRaw(ctx context.Context, sql Text, params ...any) (Raw, error) {
	answer, err := raw(ctx, "/v1/query", sql, params)
	var refusal *Error
	if errors.As(err, &refusal) && refusal.Code == "writes-in-query" {
		return raw(ctx, "/v1/exec", sql, params)
	}
	return answer, err
}

// ExecRaw runs a statement that writes.
func ExecRaw(ctx context.Context, sql Text, params ...any) (Raw, error) {
	return raw(ctx, "/v1/exec", sql, params)
}

func raw(ctx context.Context, path string, sql Text, params []any) (Raw, error) {
	var answer stored
	err := ask(ctx, path, formed{Statement{sql, params}, `,"rows":"arrays","values":"stored"}`}, &answer)
	return Raw{Result{Changes: answer.Changes, LastID: answer.LastID}, answer.Columns, answer.Rows}, err
}

// stored is Raw as JSON: a blob is {"base64": "AQI="}.
type stored struct {
	Changes int64    `json:"changes"`
	LastID  int64    `json:"last_id"`
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}

// UnmarshalJSON reads rows, with an int64 for every whole number.
func (s *stored) UnmarshalJSON(data []byte) error {
	type wire stored
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode((*wire)(s))
}

func (s *stored) finish() error {
	for _, row := range s.Rows {
		for i, value := range row {
			tagged, isBlob := value.(map[string]any)
			if !isBlob {
				row[i] = plain(value)
				continue
			}
			blob, err := base64.StdEncoding.DecodeString(fmt.Sprint(tagged["base64"]))
			if err != nil {
				return err
			}
			row[i] = blob
		}
	}
	return nil
}
