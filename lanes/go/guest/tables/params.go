package tables

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

// isoTime is the format of a timestamp: UTC, milliseconds, Z.
const isoTime = "2006-01-02T15:04:05.000Z"

type batch []Statement

func (b batch) appendJSON(to []byte) ([]byte, error) {
	to = append(to, `{"statements":[`...)
	for i, statement := range b {
		if i > 0 {
			to = append(to, ',')
		}
		var err error
		if to, err = statement.appendJSON(to); err != nil {
			return nil, fmt.Errorf("statement %d: %w", i+1, err)
		}
	}
	return append(to, "]}"...), nil
}

func (s Statement) appendJSON(to []byte) ([]byte, error) {
	to = append(to, `{"sql":`...)
	to, err := appendText(to, string(s.SQL))
	if err != nil {
		return nil, fmt.Errorf("the SQL %w", err)
	}
	to = append(to, `,"params":[`...)
	for i, param := range s.Params {
		if i > 0 {
			to = append(to, ',')
		}
		if to, err = appendParam(to, param); err != nil {
			return nil, fmt.Errorf("parameter $%d %w", i+1, err)
		}
	}
	return append(to, "]}"...), nil
}

// formed is a statement with the form of its rows, the rest of its JSON.
type formed struct {
	Statement
	form string
}

func (f formed) appendJSON(to []byte) ([]byte, error) {
	to, err := f.Statement.appendJSON(to)
	if err != nil {
		return nil, err
	}
	return append(to[:len(to)-1], f.form...), nil
}

// appendParam appends a parameter as JSON. Its errors complete the text "parameter $1".
func appendParam(to []byte, param any) ([]byte, error) {
	switch param := param.(type) {
	case nil:
		return append(to, "null"...), nil
	case bool:
		return strconv.AppendBool(to, param), nil
	case int:
		return strconv.AppendInt(to, int64(param), 10), nil
	case int64:
		return strconv.AppendInt(to, param, 10), nil
	case float64:
		return appendFloat(to, param)
	case string:
		return appendText(to, param)
	case []byte:
		if param == nil {
			return append(to, "null"...), nil
		}
		return appendBlob(to, param), nil
	case time.Time:
		return appendTime(to, param)
	case json.RawMessage:
		return appendText(to, string(param))
	}
	return appendOther(to, param)
}

func appendOther(to []byte, param any) ([]byte, error) {
	value := reflect.ValueOf(param)
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return append(to, "null"...), nil
		}
		if _, ok := param.(encoding.TextMarshaler); !ok {
			return appendParam(to, value.Elem().Interface())
		}
	}
	if marshaler, ok := param.(encoding.TextMarshaler); ok {
		text, err := marshaler.MarshalText()
		if err != nil {
			return nil, fmt.Errorf("has no text: %w", err)
		}
		return appendText(to, string(text))
	}
	switch value.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(to, value.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(to, value.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if value.Uint() > math.MaxInt64 {
			return nil, fmt.Errorf("is %d, which is more than an integer holds", value.Uint())
		}
		return strconv.AppendUint(to, value.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		return appendFloat(to, value.Float())
	case reflect.String:
		return appendText(to, value.String())
	}
	document, err := json.Marshal(param)
	if err != nil {
		return nil, fmt.Errorf("has no JSON: %w", err)
	}
	return appendText(to, string(document))
}

func appendFloat(to []byte, value float64) ([]byte, error) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil, fmt.Errorf("is %v, which no column holds", value)
	}
	text := strconv.AppendFloat(nil, value, 'g', -1, 64)
	to = append(to, text...)
	for _, char := range text {
		if char == '.' || char == 'e' {
			return to, nil
		}
	}
	return append(to, ".0"...), nil // remains a real in columns of any type
}

func appendTime(to []byte, value time.Time) ([]byte, error) {
	value = value.UTC()
	if year := value.Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("is in the year %d, which no timestamp holds", year)
	}
	to = append(to, '"')
	return append(value.AppendFormat(to, isoTime), '"'), nil
}

func appendBlob(to, value []byte) []byte {
	to = append(to, `{"base64":"`...)
	to = base64.StdEncoding.AppendEncode(to, value)
	return append(to, `"}`...)
}

const hex = "0123456789abcdef"

func appendText(to []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("is not UTF-8: bytes are sent as []byte")
	}
	to = append(to, '"')
	begin := 0
	for i := 0; i < len(text); i++ {
		char := text[i]
		if char >= ' ' && char != '"' && char != '\\' {
			continue
		}
		to = append(to, text[begin:i]...)
		if char < ' ' {
			to = append(to, '\\', 'u', '0', '0', hex[char>>4], hex[char&15])
		} else {
			to = append(to, '\\', char)
		}
		begin = i + 1
	}
	return append(append(to, text[begin:]...), '"'), nil
}
