package auditlog

import (
	"fmt"
	"strings"
	"testing"
)

// logOf makes a log of lines "AGENT VERB RESOURCE/NAME [OWNER]", one millisecond apart.
func logOf(t *testing.T, lines ...string) Log {
	t.Helper()
	var text strings.Builder
	for n, l := range lines {
		f := strings.Fields(l)
		resource, name, _ := strings.Cut(f[2], "/")
		body := ""
		if len(f) > 3 {
			meta := map[string]string{
				"-":    `{}`,
				"hook": `{"annotations":{"helm.sh/hook":"pre-install"}}`,
			}[f[3]]
			if meta == "" {
				meta = fmt.Sprintf(`{"labels":{"app.kubernetes.io/managed-by":"Helm"},"annotations":{"meta.helm.sh/release-name":%q,"meta.helm.sh/release-namespace":"ns"}}`, f[3])
			}
			body = `,"responseObject":{"kind":"X","metadata":` + meta + `}`
		}
		e := line(1000*n, f[1], fmt.Sprintf(`"resource":%q,"name":%q,"namespace":"ns"`, resource, name), body)
		text.WriteString(strings.Replace(e, "helm/4", f[0], 1))
	}
	log, err := read(t, text.String())
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestForeignWrites checks what an observer finds in the audit log.
func TestForeignWrites(t *testing.T) {
	const one, two, record = "lockstep/1", "lockstep/2", " secrets/sh.helm.release.v1."
	tests := []struct {
		name  string
		lines []string
		want  string // part of the only line; "" for none
	}{
		{"own object", []string{one + " patch configmaps/x a", one + " patch configmaps/x a", one + " delete configmaps/x"}, ""},
		{"taken from another release", []string{one + " patch configmaps/x a", two + " patch configmaps/x b"}, "took over an object of release ns/a"},
		{"taken from kubectl", []string{"kubectl/1 create configmaps/x -", one + " patch configmaps/x a"}, "took over an object of no release, made by kubectl/1"},
		{"taken after it was gone", []string{"kubectl/1 create configmaps/x -", "kubectl/1 delete configmaps/x", one + " patch configmaps/x a"}, ""},
		{"helm takes over", []string{one + " patch configmaps/x a", "Helm/4 patch configmaps/x b"}, ""},
		{"deleted from kubectl", []string{"kubectl/1 create configmaps/x -", one + " delete configmaps/x"}, "deleted an object of no release"},
		{"hook of Helm deleted", []string{"Helm/4 create jobs/x hook", one + " delete jobs/x"}, ""},
		{"object becomes a hook", []string{one + " patch jobs/x a", one + " delete jobs/x", one + " create jobs/x hook", one + " delete jobs/x"}, ""},
		{"recreated by kubectl", []string{one + " patch configmaps/x a", "kubectl/1 delete configmaps/x", "kubectl/1 create configmaps/x -", one + " delete configmaps/x"}, "made by kubectl"},
		{"made by a controller", []string{"manager create pods/x", one + " delete pods/x"}, "made by manager"},
		{"upgrades in turn", []string{
			one + " create leases/lockstep.v1.a", one + " create" + record + "a.v1", one + " delete leases/lockstep.v1.a",
			"Helm/4 create" + record + "a.v2",
			one + " create leases/lockstep.v1.a", one + " create" + record + "a.v3", one + " update" + record + "a.v2",
		}, ""},
		{"marked after Helm's upgrade", []string{
			one + " create leases/lockstep.v1.a", one + " create" + record + "a.v1",
			"Helm/4 create" + record + "a.v2", one + " update leases/lockstep.v1.a", one + " update" + record + "a.v1",
		}, "a.v2 is newer, made by Helm/4"},
		{"object after a takeover", []string{
			one + " create leases/lockstep.v1.a", one + " create" + record + "a.v1", one + " patch configmaps/x a",
			two + " update leases/lockstep.v1.a", two + " create" + record + "a.v2", one + " patch configmaps/x a",
		}, "a.v2 is newer, made by lockstep 2"},
		{"deleted after a takeover", []string{
			one + " create leases/lockstep.v1.a", one + " create" + record + "a.v1", one + " patch configmaps/x a",
			two + " update leases/lockstep.v1.a", two + " create" + record + "a.v2", one + " delete configmaps/x",
		}, "a.v2 is newer"},
		{"another release", []string{
			one + " create leases/lockstep.v1.a", one + " create" + record + "a.v1",
			two + " create leases/lockstep.v1.b", two + " create" + record + "b.v1", one + " update" + record + "a.v1",
		}, ""},
		{"elsewhere", []string{"kubectl/1 create configmaps/x -", strings.Replace(one+" patch configmaps/x a", "x a", "y a", 1)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := logOf(t, tt.lines...).ForeignWrites(func(ns string) bool { return ns == "ns" })
			if (tt.want == "") != (len(got) == 0) || tt.want != "" && !strings.Contains(got[0], tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if other := logOf(t, tt.lines...).ForeignWrites(func(ns string) bool { return ns == "other" }); len(other) != 0 {
				t.Errorf("of another namespace: %q", other)
			}
		})
	}
}
