package auditlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// line is an event as the API server writes it, some microseconds after base.
func line(micros int, verb, object, more string) string {
	at := base.Add(time.Duration(micros) * time.Microsecond).Format("2006-01-02T15:04:05.000000Z")
	return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/x","verb":"` + verb +
		`","user":{"username":"me","groups":["system:masters"]},"sourceIPs":["127.0.0.1"],"userAgent":"helm/4","objectRef":{` + object +
		`},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"` + at + `","stageTimestamp":"` + at + `"` + more + "}\n"
}

var base = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func read(t *testing.T, text string) (Log, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(file)
}

func TestRead(t *testing.T) {
	log, err := read(t, line(1234, "patch", `"resource":"deployments","namespace":"shop","name":"web","apiGroup":"apps","apiVersion":"v1","subresource":"status"`, "")+
		`{"kind":"Event","auditID":"not complete`)
	if err != nil || len(log) != 1 {
		t.Fatalf("%v, %v", log, err)
	}
	at := base.Add(1234 * time.Microsecond)
	want := Event{AuditID: "a", Stage: ResponseComplete, Verb: "patch", RequestURI: "/x", UserAgent: "helm/4", Username: "me", Code: 200, Received: at, At: at,
		Object: ObjectRef{APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Subresource: "status", Namespace: "shop", Name: "web"}}
	if log[0] != want {
		t.Errorf("got  %+v\nwant %+v", log[0], want)
	}
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		line(1, "get", "", "") + "{\n": "audit.log, line at byte 402",
		`{"kind":"Pod"}` + "\n":        `kind "Pod" is not an audit event`,
	} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

func TestWrites(t *testing.T) {
	tests := []struct {
		name, line string
		want       bool
	}{
		{"create", line(1, "create", `"resource":"pods"`, ""), true},
		{"update", line(1, "update", `"resource":"pods","subresource":"status"`, ""), true},
		{"patch", line(1, "patch", `"resource":"pods"`, ""), true},
		{"delete", line(1, "delete", `"resource":"pods"`, ""), true},
		{"delete many", line(1, "deletecollection", `"resource":"pods"`, ""), true},
		{"read", line(1, "get", `"resource":"pods"`, ""), false},
		{"watch", line(1, "watch", `"resource":"pods"`, ""), false},
		{"refused", strings.Replace(line(1, "create", `"resource":"pods"`, ""), `"code":200`, `"code":409`, 1), false},
		{"not complete", strings.Replace(line(1, "create", `"resource":"pods"`, ""), ResponseComplete, ResponseStarted, 1), false},
		{"dry run", strings.Replace(line(1, "create", `"resource":"pods"`, ""), `"/x"`, `"/x?fieldManager=y&dryRun=All"`, 1), false},
		{"access review", line(1, "create", `"resource":"selfsubjectaccessreviews","apiGroup":"authorization.k8s.io"`, ""), false},
		{"token review", line(1, "create", `"resource":"tokenreviews","apiGroup":"authentication.k8s.io"`, ""), false},
		{"token", line(1, "create", `"resource":"serviceaccounts","subresource":"token"`, ""), false},
		{"service account", line(1, "create", `"resource":"serviceaccounts"`, ""), true},
		{"lease", line(1, "update", `"resource":"leases","apiGroup":"coordination.k8s.io"`, ""), false},
		{"event", line(1, "create", `"resource":"events"`, ""), false},
		{"new event", line(1, "patch", `"resource":"events","apiGroup":"events.k8s.io"`, ""), false},
	}
	for _, tt := range tests {
		log, err := read(t, tt.line)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(log.Writes()) == 1; got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestFilters(t *testing.T) {
	log, err := read(t, line(1, "get", `"resource":"pods","namespace":"shop"`, "")+
		line(2, "get", `"resource":"nodes","name":"node-0"`, "")+
		strings.Replace(line(3, "get", "", ""), "helm/4", "kubectl/1", 1))
	if err != nil {
		t.Fatal(err)
	}
	if got := log.Namespace("shop"); len(got) != 1 || got[0].Object.Resource != "pods" {
		t.Errorf("Namespace(shop): %+v", got)
	}
	if got := log.Namespace(""); len(got) != 1 || got[0].Object.Resource != "nodes" {
		t.Errorf("Namespace(\"\"): %+v", got)
	}
	if got := log.UserAgent("kubectl"); len(got) != 1 || got[0].Object != (ObjectRef{}) {
		t.Errorf("UserAgent(kubectl): %+v", got)
	}
}
