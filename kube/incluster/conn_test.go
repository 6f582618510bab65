package incluster

import (
	"encoding/json"
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
)

// TestRunEndsDuringOutage: if the connection breaks and the Job ends before the log is read again, Conn still
// returns all lines.
func TestRunEndsDuringOutage(t *testing.T) {
	const first, last = `{"seq":1,"kind":"operation"}`, `{"seq":2,"kind":"operation","exit":3}`
	var reads atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/log"):
			fmt.Fprintln(w, first)
			if reads.Add(1) == 1 {
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintln(w, last)
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
	got := strings.Fields(string(text)) // without the line after past events
	if err != nil || len(got) != 2 || got[0] != first || got[1] != last {
		t.Errorf("read %q, %v; want both events", text, err)
	}
}
