package inspector

import (
	"reflect"
	"testing"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// TestFound ignores case and returns cells, not bytes.
func TestFound(t *testing.T) {
	for _, tt := range []struct {
		query string
		line  canvas.Line
		want  [][2]int
	}{
		{"fatal", canvas.Plain(theme.Text, "a FATAL Fatal"), [][2]int{{2, 7}, {8, 13}}},
		{"aa", canvas.Plain(theme.Text, "aaa"), [][2]int{{0, 2}}},
		{"ü", canvas.Plain(theme.Text, "日Ü"), [][2]int{{2, 3}}},
		{"x", canvas.Line{{Role: theme.Quiet, Text: "1 main "}, {Role: theme.Text, Text: "yXy"}}, [][2]int{{8, 9}}},
		{"", canvas.Plain(theme.Text, "a"), nil},
		{"ab", canvas.Plain(theme.Text, "a"), nil},
	} {
		if got := found(tt.line, tt.query); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q in %v: %v, want %v", tt.query, tt.line, got, tt.want)
		}
	}
}
