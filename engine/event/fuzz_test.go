package event

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzRead checks that every readable record can be applied to a State, and keeps its number of events
// when it is written and read again.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"seq":1,"kind":"operation","status":"running","operation":{"name":"install"}}`,
		`{"kind":"plan","phases":[{"name":"apply","groups":[{"id":"a","after":["b"],"objects":[{"kind":"K","name":"n"}]},null]}]}` + "\n" + `{"kind":"group","phase":"apply","group":"a","status":"ready"}`,
		`{"kind":"object","phase":"apply","group":"a"}`, `{"kind":"diagnosis"}`, `{"kind":"log","lines":["x"]}`, "{}\n\n", "null", `{"kind":"operation","status":"failed","exit":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events, _ := Read(bytes.NewReader(data))
		var state State
		var b bytes.Buffer
		for _, e := range events {
			state.Apply(e)
			line, err := json.Marshal(e)
			if err != nil {
				return // a time that JSON cannot represent
			}
			b.Write(append(line, '\n'))
		}
		again, err := Read(&b)
		if err != nil || len(again) != len(events) {
			t.Errorf("%d events, then %d: %v", len(events), len(again), err)
		}
		compact(events)
	})
}
