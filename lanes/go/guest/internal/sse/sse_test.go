package sse

import (
	"testing"
	"time"
)

func TestEvent(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Event("", "", "", 0), "data: \n\n"},
		{Event("7", "tick", "a\r\nb\rc", 1500*time.Millisecond), "id: 7\nevent: tick\nretry: 1500\ndata: a\ndata: b\ndata: c\n\n"},
		{Event("7\ndata: forged", "x", "y", 0), "id: 7\nevent: x\ndata: y\n\n"},
		{Comment("still\nhere"), ": still\n: here\n\n"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
