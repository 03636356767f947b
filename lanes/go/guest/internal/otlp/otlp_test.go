package otlp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"
)

func TestValuesOfEveryKind(t *testing.T) {
	for _, check := range []struct {
		value any
		want  string
	}{
		{"a\"ü", `{"stringValue":"a\"ü"}`},
		{true, `{"boolValue":true}`},
		{int64(math.MinInt64), `{"intValue":"-9223372036854775808"}`},
		{uint64(math.MaxUint64), `{"stringValue":"18446744073709551615"}`},
		{0.5, `{"doubleValue":0.5}`},
		{math.NaN(), `{"doubleValue":"NaN"}`},
		{math.Inf(-1), `{"doubleValue":"-Infinity"}`},
		{1500 * time.Millisecond, `{"stringValue":"1.5s"}`},
		{time.Unix(0, 5).UTC(), `{"stringValue":"1970-01-01T00:00:00.000000005Z"}`},
		{errors.New("gone"), `{"stringValue":"gone"}`},
		{[]byte{0, 255}, `{"bytesValue":"AP8="}`},
		{[]int{1, 2}, `{"stringValue":"[1,2]"}`},
		{json.RawMessage(`"x"`), `{"stringValue":"x"}`},
		{nil, `{}`},
		{func() {}, ``},
	} {
		got := string(anyValue(slog.AnyValue(check.value)))
		if check.want != "" && got != check.want || !json.Valid([]byte(got)) {
			t.Errorf("%v is %s, not %s", check.value, got, check.want)
		}
	}
}

func TestGroupsAreInTheKeys(t *testing.T) {
	group := slog.Group("at", "level", 2, slog.Group("", "time", 3), slog.Group("empty"))
	got := AppendAttribute(nil, "outer.", group)
	if text := fmt.Sprintf("%s", got); text != `[{outer.at.level {"intValue":"2"}} {outer.at.time {"intValue":"3"}}]` {
		t.Error(text)
	}
}

func TestARecordIsALogRecordOfOTLP(t *testing.T) {
	attributes := []Attribute{{"a", []byte("{}")}, {"b", []byte("{}")}}
	got := string(AppendRecord(nil, time.Unix(1_800_000_000, 1), 4, "two\nlines", attributes))
	want := `{"timeUnixNano":"1800000000000000001","severityNumber":13,"body":{"stringValue":"two\nlines"},` +
		`"attributes":[{"key":"a","value":{}},{"key":"b","value":{}}]}`
	if got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestLevelsHaveTheirSeverities(t *testing.T) {
	for level, want := range map[int]string{-100: "1", -4: "5", 0: "9", 2: "11", 8: "17", 100: "24"} {
		record := struct{ SeverityNumber json.Number }{}
		if err := json.Unmarshal(AppendRecord(nil, time.Time{}, level, "", nil), &record); err != nil {
			t.Fatal(err)
		}
		if record.SeverityNumber.String() != want {
			t.Errorf("level %d is %s, not %s", level, record.SeverityNumber, want)
		}
	}
}
