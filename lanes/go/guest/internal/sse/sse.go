// Package sse writes the format of event streams (HTML Living Standard, 9.2).
package sse

import (
	"strconv"
	"strings"
	"time"
)

// lineEnds replaces the three line ends of the format by one.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// Event returns an encoded event. Empty fields are omitted, except the data.
func Event(id, name, data string, retry time.Duration) string {
	var text strings.Builder
	field(&text, "id", id)
	field(&text, "event", name)
	if retry > 0 {
		field(&text, "retry", strconv.FormatInt(retry.Milliseconds(), 10))
	}
	block(&text, "data: ", data)
	return text.String()
}

// Comment returns lines that clients ignore.
func Comment(comment string) string {
	var text strings.Builder
	block(&text, ": ", comment)
	return text.String()
}

// field writes a field of one line, and omits all later lines.
func field(text *strings.Builder, name, value string) {
	value, _, _ = strings.Cut(lineEnds.Replace(value), "\n")
	if value != "" {
		text.WriteString(name + ": " + value + "\n")
	}
}

func block(text *strings.Builder, prefix, lines string) {
	for line := range strings.SplitSeq(lineEnds.Replace(lines), "\n") {
		text.WriteString(prefix + line + "\n")
	}
	text.WriteByte('\n')
}
