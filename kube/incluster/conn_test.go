package incluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lockstep/engine/event"
)

// TestRunEndsDuringOutage: if the connection breaks and the Job ends before the log is read again, Conn still
// returns all lines.
func TestRunEndsDuringOutage(t *testing.T) {
	const first, last = `{"seq":1,"kind":"operation"}`, `{"seq":2,"kind":"operation","exit":3}`
	text, err := readLogs(t, first, first+"\n"+last)
	got := strings.Fields(text) // without the line after past events
	if err != nil || len(got) != 2 || got[0] != first || got[1] != last {
		t.Errorf("read %q, %v; want both events", text, err)
	}
}

// TestRotatedLog: the kubelet keeps only the end of a long log. Without the first events, nobody can show the run, and Conn says so;
// later ones that are missing are counted in a warning.
func TestRotatedLog(t *testing.T) {
	const first, last = `{"seq":1,"kind":"operation"}`, `{"seq":9,"kind":"operation","exit":0}`
	text, err := readLogs(t, "g\":1}\n"+`{"seq":8,"kind":"object"}`, "")
	var rotated *RotatedError
	if !errors.As(err, &rotated) || strings.Contains(text, "object") || !strings.Contains(err.Error(), "the log of run n/j is gone") || !strings.Contains(err.Error(), "kubectl delete job j -n n") {
		t.Errorf("without the first events: %q, %v", text, err)
	}
	text, err = readLogs(t, first, last)
	var warning event.Event
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if err != nil || len(lines) != 3 || lines[0] != first || json.Unmarshal([]byte(lines[1]), &warning) != nil || lines[2] != last ||
		warning.Seq != 8 || warning.Kind != event.KindWarning || !strings.HasPrefix(warning.Message, "7 events of the run are missing here") {
		t.Errorf("without later events: %q, %v", text, err)
	}
}

// readLogs returns what a Conn reads of a run whose pod has one log until the connection breaks and then, after its end, another.
func readLogs(t *testing.T, before, after string) (string, error) {
	t.Helper()
	var reads atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/log"):
			if reads.Add(1) == 1 {
				fmt.Fprintln(w, before)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintln(w, after)
		case strings.HasSuffix(r.URL.Path, "/pods"):
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
			if reads.Load() > 0 {
				pod.Status.Phase = corev1.PodFailed
			}
			_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{pod}})
		default:
			_ = json.NewEncoder(w).Encode(batchv1.Job{
				TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n"},
				Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}},
			})
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	conn := Run{Namespace: "n", Name: "j", kube: client}.Open(t.Context(), Wait{})
	defer conn.Close()
	text, err := io.ReadAll(conn)
	return string(text), err
}
