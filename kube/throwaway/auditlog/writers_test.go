package auditlog

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secretOf returns the JSON of the Secret of a release record. what is "STATUS" or "STATUS:NAME,NAME" with ConfigMaps.
func secretOf(t *testing.T, what string) string {
	t.Helper()
	status, names, _ := strings.Cut(what, ":")
	manifest := ""
	for name := range strings.SplitSeq(names, ",") {
		manifest += "---\n# Source: x\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := json.NewEncoder(z).Encode(map[string]any{"manifest": manifest}); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"type": "helm.sh/release.v1", "metadata": map[string]any{"labels": map[string]string{"status": status}},
		"data": map[string]any{"release": []byte(base64.StdEncoding.EncodeToString(packed.Bytes()))}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// logOf makes the lines of a log from lines "AGENT VERB RESOURCE/NAME [OWNER]", one millisecond apart. OWNER is - for none, hook, a release, or
// keep-RELEASE for a policy of keep. Of a release record it is what secretOf takes. "later" lets two seconds pass.
func logOf(t *testing.T, lines ...string) (events []string) {
	t.Helper()
	later := 0
	for n, l := range lines {
		if l == "later" {
			later += 2_000_000
			continue
		}
		f := strings.Fields(l)
		resource, name, _ := strings.Cut(f[2], "/")
		body := ""
		if len(f) > 3 && resource == "secrets" {
			body = `,"requestObject":` + secretOf(t, f[3])
		} else if len(f) > 3 {
			meta := map[string]string{
				"-":    `{}`,
				"hook": `{"annotations":{"helm.sh/hook":"pre-install"}}`,
			}[f[3]]
			if meta == "" {
				release, keep := strings.CutPrefix(f[3], "keep-")
				meta = fmt.Sprintf(`{"labels":{"app.kubernetes.io/managed-by":"Helm"},"annotations":{"helm.sh/resource-policy":%q,"meta.helm.sh/release-name":%q,"meta.helm.sh/release-namespace":"ns"}}`,
					map[bool]string{true: "keep"}[keep], release)
			}
			body = `,"responseObject":{"kind":"ConfigMap","metadata":` + meta + `}`
		}
		e := line(1000*n+later, f[1], fmt.Sprintf(`"resource":%q,"name":%q,"namespace":"ns"`, resource, name), body)
		events = append(events, strings.Replace(e, "helm/4", f[0], 1))
	}
	return events
}

// TestForeignWrites checks what an observer finds in the audit log.
func TestForeignWrites(t *testing.T) {
	const one, two, record, lease = "lockstep/1", "lockstep/2", " secrets/sh.helm.release.v1.", " create leases/lockstep.v1."
	tests := []struct {
		name  string
		lines []string
		want  string // part of the only line; "" for none
	}{
		{"own object", []string{one + lease + "a", one + " patch configmaps/x a", one + " patch configmaps/x a", one + " delete configmaps/x"}, ""},
		{"taken from another release", []string{one + " patch configmaps/x a", two + " patch configmaps/x b"}, "took over an object of release ns/a"},
		{"taken from kubectl", []string{"kubectl/1 create configmaps/x -", one + " patch configmaps/x a"}, "took over an object of no release, made by kubectl/1"},
		{"taken after it was gone", []string{"kubectl/1 create configmaps/x -", "kubectl/1 delete configmaps/x", one + " patch configmaps/x a"}, ""},
		{"helm takes over", []string{one + " patch configmaps/x a", "Helm/4 patch configmaps/x b"}, ""},
		{"deleted from kubectl", []string{"kubectl/1 create configmaps/x -", one + " delete configmaps/x"}, "deleted an object of no release"},
		{"hook of Helm deleted", []string{"Helm/4 create jobs/x hook", one + " delete jobs/x"}, ""},
		{"object becomes a hook", []string{one + lease + "a", one + " patch jobs/x a", one + " delete jobs/x", one + " create jobs/x hook", one + " delete jobs/x"}, ""},
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
		{"deleted from another release", []string{one + " create" + record + "a.v1", "Helm/4 create configmaps/x b", one + " delete configmaps/x"},
			"deleted an object of release ns/b"},
		{"undone after it appeared with the marks of the release", []string{
			"kubectl/1 create configmaps/x a", one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x a", one + " delete configmaps/x",
		}, "deleted what existed before release ns/a took it over, made by kubectl/1"},
		{"given back", []string{
			"kubectl/1 create configmaps/x a", one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x a", one + " patch configmaps/x -",
		}, ""},
		{"uninstalled after it was deployed", []string{
			"kubectl/1 create configmaps/x a", one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x a",
			one + " update" + record + "a.v1 deployed:x", one + " update" + record + "a.v1 uninstalling:x", one + " delete configmaps/x",
		}, ""},
		{"undone by another run", []string{
			"kubectl/1 create configmaps/x a", one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x a",
			one + " update" + record + "a.v1 failed:x", two + " update" + record + "a.v1 uninstalling:x", two + " delete configmaps/x",
		}, "existed before release ns/a"},
		{"taken over and given back, then taken over and deleted", []string{
			"kubectl/1 create configmaps/x -", one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x -",
			one + " update" + record + "a.v1 failed:x", two + " create" + record + "a.v2 pending-install:x", two + " patch configmaps/x a",
			two + " patch configmaps/x -", two + " update" + record + "a.v2 failed:x",
			two + " create" + record + "a.v3 pending-install:x", two + " patch configmaps/x a", two + " delete configmaps/x",
		}, "took over an object of no release"},
		{"left by a failed revision", []string{
			one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x a", one + " update" + record + "a.v1 failed:x",
			two + " create" + record + "a.v2 pending-upgrade:x", two + " patch configmaps/x a", two + " delete configmaps/x",
		}, ""},
		{"brought by Helm", []string{
			"Helm/4 create" + record + "a.v1 deployed:x", "Helm/4 create configmaps/x a",
			two + " create" + record + "a.v2 pending-upgrade:x", two + " patch configmaps/x a", two + " delete configmaps/x",
		}, ""},
		{"restored after a deployed revision had removed it", []string{
			one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x a", one + " update" + record + "a.v1 deployed:x",
			one + " create" + record + "a.v2 pending-upgrade:y", one + " delete configmaps/x", one + " update" + record + "a.v2 deployed:y",
			"kubectl/1 create configmaps/x a", two + " create" + record + "a.v3 pending-upgrade:z", two + " delete configmaps/x",
		}, "no revision of release ns/a has created"},
		{"made again after the run of the failed revision", []string{
			one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x a", one + " update" + record + "a.v1 failed:x", "later",
			"kubectl/1 delete configmaps/x", "kubectl/1 create configmaps/x a", two + " create" + record + "a.v2 pending-upgrade:z", two + " delete configmaps/x",
		}, "no revision of release ns/a has created"},
		{"made by somebody else during the run of the failed revision", []string{
			one + " create" + record + "a.v1 pending-install:x", "later", "kubectl/1 create configmaps/x a", "later", one + " update" + record + "a.v1 failed:x",
			two + " create" + record + "a.v2 pending-upgrade:z", two + " delete configmaps/x",
		}, ""},
		{"a namespace with an object of another release", []string{
			one + " create" + record + "a.v1 pending-install:x", one + " patch namespaces/ns a", one + " patch configmaps/x a",
			"Helm/4 create configmaps/y b", one + " delete namespaces/ns",
		}, "a namespace with an object of release ns/b"},
		{"restored, but of the deployed revision", []string{
			one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x a", one + " update" + record + "a.v1 deployed:x",
			"kubectl/1 delete configmaps/x", "kubectl/1 create configmaps/x a", two + " update" + record + "a.v1 uninstalling:x", two + " delete configmaps/x",
		}, ""},
		{"kept by an earlier revision", []string{
			one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x keep-a", one + " update" + record + "a.v1 deployed:x",
			one + " create" + record + "a.v2 pending-upgrade:y", one + " update" + record + "a.v2 deployed:y",
			two + " create" + record + "a.v3 pending-upgrade:x", two + " patch configmaps/x keep-a", two + " delete configmaps/x",
		}, "existed before release ns/a took it over, made by lockstep"},
		{"kept, but of the deployed revision", []string{
			one + " create" + record + "a.v1 pending-install:x", one + " patch configmaps/x keep-a", one + " update" + record + "a.v1 deployed:x",
			two + " create" + record + "a.v2 pending-upgrade:x", two + " patch configmaps/x keep-a", two + " delete configmaps/x",
		}, ""},
		{"elsewhere", []string{"kubectl/1 create configmaps/x -", strings.Replace(one+" patch configmaps/x a", "x a", "y a", 1)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tail := &Tail{path: filepath.Join(t.TempDir(), "audit.log")}
			f, err := os.Create(tail.path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			foreign := func(namespace string) []string {
				lines, err := tail.ForeignWrites(func(ns string) bool { return ns == namespace })
				if err != nil {
					t.Fatal(err)
				}
				return lines
			}
			for _, e := range logOf(t, tt.lines...) { // each write is judged once, while the log grows
				if _, err := f.WriteString(e); err != nil {
					t.Fatal(err)
				}
				foreign("ns")
			}
			got := foreign("ns")
			if (tt.want == "") != (len(got) == 0) || tt.want != "" && !strings.Contains(got[0], tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if other := foreign("other"); len(other) != 0 {
				t.Errorf("of another namespace: %q", other)
			}
		})
	}
}
