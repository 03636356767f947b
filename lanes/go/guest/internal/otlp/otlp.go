// Package otlp writes log records in the JSON of OpenTelemetry's protocol.
package otlp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"
)

// infoSeverity is the SeverityNumber of slog.LevelInfo; the steps of both are the same.
const infoSeverity = 9

// An Attribute is a key and its value, an AnyValue in JSON.
type Attribute struct {
	Key   string
	Value []byte
}

// AppendAttribute appends an attribute of a record, and those of a group one by one: their keys have the names of
// the enclosing groups as prefixes, with dots.
func AppendAttribute(to []Attribute, prefix string, attribute slog.Attr) []Attribute {
	value := attribute.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		if attribute.Key == "" && attribute.Equal(slog.Attr{}) {
			return to
		}
		return append(to, Attribute{prefix + attribute.Key, anyValue(value)})
	}
	if attribute.Key != "" {
		prefix += attribute.Key + "."
	}
	for _, inner := range value.Group() {
		to = AppendAttribute(to, prefix, inner)
	}
	return to
}

// AppendRecord appends a LogRecord; the level is one of slog.
func AppendRecord(to []byte, at time.Time, level int, message string, attributes []Attribute) []byte {
	to = append(to, `{"timeUnixNano":"`...)
	to = strconv.AppendInt(to, at.UnixNano(), 10)
	to = append(to, `","severityNumber":`...)
	to = strconv.AppendInt(to, int64(min(max(level+infoSeverity, 1), 24)), 10)
	to = append(to, `,"body":`...)
	to = append(to, text(message)...)
	to = append(to, `,"attributes":[`...)
	for i, attribute := range attributes {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, `{"key":`...)
		to = append(to, quoted(attribute.Key)...)
		to = append(to, `,"value":`...)
		to = append(to, attribute.Value...)
		to = append(to, '}')
	}
	return append(to, `]}`...)
}

func anyValue(value slog.Value) []byte {
	switch value.Kind() {
	case slog.KindString:
		return text(value.String())
	case slog.KindBool:
		return of("boolValue", strconv.FormatBool(value.Bool()))
	case slog.KindInt64:
		return of("intValue", `"`+strconv.FormatInt(value.Int64(), 10)+`"`)
	case slog.KindUint64:
		if number := value.Uint64(); number <= math.MaxInt64 {
			return of("intValue", `"`+strconv.FormatUint(number, 10)+`"`)
		}
		return text(value.String())
	case slog.KindFloat64:
		return float(value.Float64())
	case slog.KindTime:
		return text(value.Time().Format(time.RFC3339Nano))
	case slog.KindDuration:
		return text(value.Duration().String())
	}
	return other(value.Any())
}

func float(number float64) []byte {
	switch {
	case math.IsNaN(number):
		return of("doubleValue", `"NaN"`)
	case math.IsInf(number, 1):
		return of("doubleValue", `"Infinity"`)
	case math.IsInf(number, -1):
		return of("doubleValue", `"-Infinity"`)
	}
	return of("doubleValue", strconv.FormatFloat(number, 'g', -1, 64))
}

// other writes values of other kinds than slog's: errors as text, bytes, and all others as JSON.
func other(value any) []byte {
	switch value := value.(type) {
	case nil:
		return []byte("{}")
	case error:
		return text(value.Error())
	case []byte:
		return of("bytesValue", `"`+base64.StdEncoding.EncodeToString(value)+`"`)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return text(fmt.Sprintf("%+v", value))
	}
	var plain string
	if json.Unmarshal(encoded, &plain) == nil {
		return text(plain)
	}
	return text(string(encoded))
}

func text(plain string) []byte { return of("stringValue", string(quoted(plain))) }

func of(kind, value string) []byte { return []byte(`{"` + kind + `":` + value + `}`) }

func quoted(plain string) []byte {
	encoded, _ := json.Marshal(plain) // Encoding a string cannot fail.
	return encoded
}
