package diagnose

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkDiagnosis diagnoses a Deployment with 1, 10 or 100 pods, all of which crash.
// The fake cluster responds immediately.
func BenchmarkDiagnosis(b *testing.B) {
	for _, pods := range []int{1, 10, 100} {
		b.Run(strconv.Itoa(pods), func(b *testing.B) {
			var text strings.Builder
			text.WriteString(deployment)
			for n := range pods {
				if n > 0 {
					text.WriteString("\n---\n")
				}
				text.WriteString(pod(fmt.Sprint("p", n), "r2", crashed7))
			}
			d, _ := cluster(b, text.String())
			b.ReportAllocs()
			for b.Loop() {
				if r := d.Object(b.Context(), named("apps", "Deployment", "api")); !strings.Contains(r.Cause, "exited with code 7") {
					b.Fatal(r.Cause)
				}
			}
		})
	}
}
