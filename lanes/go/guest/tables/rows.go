package tables

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
)

// result is Result as JSON. Blobs are the columns whose texts are base64.
type result[T any] struct {
	Changes int64    `json:"changes"`
	LastID  int64    `json:"last_id"`
	Rows    []T      `json:"rows"`
	Blobs   []string `json:"blobs"`
}

// finish decodes the blobs in rows without a type; for others encoding/json does it.
func (r *result[T]) finish() error {
	rows, ok := any(r.Rows).([]Row)
	if !ok {
		return nil
	}
	for _, name := range r.Blobs {
		for _, row := range rows {
			text, ok := row[name].(string)
			if !ok {
				continue
			}
			blob, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
			row[name] = blob
		}
	}
	return nil
}

// arrays is Arrays as JSON. Blobs are the indexes of the columns whose texts are base64.
type arrays struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	Blobs   []int    `json:"blobs"`
}

// UnmarshalJSON reads rows, with an int64 for every whole number.
func (a *arrays) UnmarshalJSON(data []byte) error {
	type wire arrays
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode((*wire)(a))
}

func (a *arrays) finish() error {
	for _, row := range a.Rows {
		for i, value := range row {
			row[i] = plain(value)
		}
		for _, i := range a.Blobs {
			text, ok := row[i].(string)
			if !ok {
				continue
			}
			blob, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
			row[i] = blob
		}
	}
	return nil
}

// results is the response to a batch.
type results struct {
	Results []result[Row] `json:"results"`
}

func (r *results) finish() error {
	for i := range r.Results {
		if err := r.Results[i].finish(); err != nil {
			return err
		}
	}
	return nil
}

// UnmarshalJSON reads a row, with an int64 for every whole number.
func (r *Row) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var row map[string]any
	if err := decoder.Decode(&row); err != nil {
		return err
	}
	for name, value := range row {
		row[name] = plain(value)
	}
	*r = row
	return nil
}

func plain(value any) any {
	switch value := value.(type) {
	case json.Number:
		return number(string(value))
	case []any:
		for i, item := range value {
			value[i] = plain(item)
		}
	case map[string]any:
		for name, item := range value {
			value[name] = plain(item)
		}
	}
	return value
}

// number returns an int64 for digits alone, else a float64. Beyond its range it is an infinity, as in SQLite.
func number(text string) any {
	if !strings.ContainsAny(text, ".eE") {
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			return whole
		}
	}
	real, _ := strconv.ParseFloat(text, 64)
	return real
}
