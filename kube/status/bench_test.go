package status

import "testing"

// BenchmarkExpression evaluates readiness expressions, as a Watcher does at each change
// of an object that has them.
func BenchmarkExpression(b *testing.B) {
	status := map[string]any{
		"phase": "Running", "readyReplicas": int64(3),
		"conditions": []any{
			map[string]any{"type": "Progressing", "status": "True"},
			map[string]any{"type": "Available", "status": "False"},
			map[string]any{"type": "Ready", "status": "True"},
		},
	}
	for _, c := range []struct{ name, text string }{
		{"field", `{.phase} == Running`},
		{"number", `{.readyReplicas} >= 3`},
		{"condition", `{.conditions[?(@.type=="Ready")].status} == True`},
	} {
		b.Run(c.name, func(b *testing.B) {
			e, err := parseExpression(c.text)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if holds, _ := e.Holds(status); !holds {
					b.Fatal(c.text, " does not hold")
				}
			}
		})
	}
}

// BenchmarkParseExpression parses a readiness expression.
func BenchmarkParseExpression(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseExpression(`{.conditions[?(@.type=="Ready")].status} == True`); err != nil {
			b.Fatal(err)
		}
	}
}
