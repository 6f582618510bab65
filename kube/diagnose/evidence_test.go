package diagnose

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"lockstep/engine/run"
)

// TestEvidenceDoesNotRepeat expects no evidence that repeats the cause or other evidence, and no error code without an
// explanation. If there is nothing else, one such line remains.
func TestEvidenceDoesNotRepeat(t *testing.T) {
	const (
		pullError = `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/example/app:1": not found`
		pulled    = "container c cannot start: image example/app:1 cannot be pulled: not found"
		refused   = `pods "api-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0`
	)
	unavailable := map[string]any{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}
	for _, tt := range []struct {
		name       string
		cause      string
		warnings   []Event // oldest first
		status     string  // a line of the pod's status
		found      []string
		logs       []string
		conditions []any
		want       []string
	}{
		{name: "image", cause: pulled,
			warnings: []Event{{Reason: "Failed", Message: `Failed to pull image "example/app:1": ` + pullError}, {Reason: "Failed", Message: "Error: ErrImagePull"}, {Reason: "Failed", Message: "Error: ImagePullBackOff"}},
			status:   `container c is waiting: ImagePullBackOff: Back-off pulling image "example/app:1": ErrImagePull: ` + pullError,
			want:     []string{`Failed: Failed to pull image "example/app:1": ` + pullError}},
		{name: "only an error code", cause: pulled, warnings: []Event{{Reason: "Failed", Message: "Error: ImagePullBackOff"}}, want: []string{"Failed: Error: ImagePullBackOff"}},
		{name: "event in the cause", cause: `container c cannot start: secret "absent" not found`,
			warnings: []Event{{Reason: "Failed", Message: `Error: secret "absent" not found`}}, conditions: []any{unavailable},
			want: []string{"Available is False: MinimumReplicasUnavailable"}},
		{name: "nothing but the cause", cause: "exited with code 3: FATAL: no route", logs: []string{"FATAL: no route"}, want: []string{"FATAL: no route"}},
		{name: "decisive line in the cause", cause: "exited with code 3: FATAL: no route", logs: []string{"attempt 1", "attempt 12", "FATAL: no route"}, want: []string{"attempt 1", "attempt 12"}},
		{name: "the longer line", cause: "x", found: []string{"claim a is pending"}, warnings: []Event{{Reason: "Waiting", Message: "claim a is pending: no volume"}}, want: []string{"Waiting: claim a is pending: no volume"}},
		{name: "equal lines", cause: "x", warnings: []Event{{Reason: "BackOff", Message: "Back-off in pod b"}, {Reason: "BackOff", Message: "Back-off in pod a"}}, want: []string{"BackOff: Back-off in pod a"}},
		{name: "condition in an event", cause: "x", warnings: []Event{{Reason: "FailedCreate", Message: "Error creating: " + refused}},
			conditions: []any{map[string]any{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refused}},
			want:       []string{"FailedCreate: Error creating: " + refused}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &reportBuilder{
				Report: Report{Finding: run.Finding{Cause: tt.cause}, Logs: tt.logs},
				live:   &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": tt.conditions}}},
				found:  finding{evidence: tt.found},
			}
			for _, e := range tt.warnings {
				e.Warning = true
				b.Events = append(b.Events, e)
			}
			if tt.status != "" {
				b.Pods = []Pod{{statusLines: []string{tt.status}}}
			}
			if got := b.evidence(); !slices.Equal(got, tt.want) {
				t.Errorf("%q\nwant %q", got, tt.want)
			}
		})
	}
}

// unusedClaim is a claim that is being deleted and that no pod uses.
const unusedClaim = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: ns, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [kubernetes.io/pvc-protection]}, status: {phase: Bound}}`

// TestClaimWhoseUsersAreUnknown expects that a claim that is being deleted is only probably in use if its pods cannot be read.
func TestClaimWhoseUsersAreUnknown(t *testing.T) {
	d, kube := cluster(t, unusedClaim)
	kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, forbidden("pods", "", `User "bob" cannot list resource "pods" in API group "" in the namespace "ns"`)
	})
	r := d.Object(t.Context(), named("", "PersistentVolumeClaim", "c"))
	if want := "being deleted: waiting for finalizer kubernetes.io/pvc-protection: probably in use by a pod (pods cannot be read: user bob may not list pods)"; r.Cause != want {
		t.Errorf("%q\nwant %q", r.Cause, want)
	}
}
