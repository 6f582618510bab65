package keys_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"lockstep/ui/board"
	"lockstep/ui/home"
	"lockstep/ui/home/form"
)

// inFront are the keys that move, take, choose and go back: they act on whatever is in front, so each mode describes them in its
// own words.
var inFront = strings.Fields("enter esc tab shift-tab up down left right k j ↑↓ home end space ctrl-c /")

// oneMeaning are other keys with several descriptions, by what all of those have in common.
var oneMeaning = map[string][]string{
	"0": {"all"}, "C": {"copy"}, "b": {"breakpoint"}, "ctrl-s": {"save"}, "e": {"edit"}, "p": {"pause"}, "r": {"roll back"},
	"d": {"diff", "compare", "leave it running"}, // the last one only answers a question, and is in the manuals of other programs: detach
	"G": {"stop here", "end the run as failed"},  // the second answers the question that the first asks
	"P": {"past runs", "replay its run"},         // the past run of one revision
	":": {"commands", "namespace"},               // both open a line to type where to go; home has no commands of a run, a run no other namespace
}

// TestOneMeaning: a key means the same on the board, in home, in forms, and in all of their modes.
func TestOneMeaning(t *testing.T) {
	described := map[string]map[string]bool{}
	for _, k := range slices.Concat(board.Keys(), home.Doc(), form.Doc()) {
		for _, name := range strings.Split(k.Keys, ", ") {
			if described[name] == nil {
				described[name] = map[string]bool{}
			}
			described[name][strings.TrimSuffix(k.About, "…")] = true
		}
	}
	for name, abouts := range described {
		if len(abouts) == 1 || slices.Contains(inFront, name) || strings.HasPrefix(name, "page ") {
			continue
		}
		for about := range abouts {
			if !slices.ContainsFunc(oneMeaning[name], func(word string) bool { return strings.Contains(about, word) }) {
				t.Errorf("%s has several meanings: %s", name, strings.Join(slices.Sorted(maps.Keys(abouts)), " · "))
			}
		}
	}
	for name := range oneMeaning {
		if len(described[name]) < 2 {
			t.Errorf("%s has one description, and needs no exception", name)
		}
	}
}
