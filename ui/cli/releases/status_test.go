package releases

import (
	"testing"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"lockstep/kube/mask"
)

// TestLiveSecretsAreHidden (S14): status hides passwords in live objects, which are in no revision of the release.
func TestLiveSecretsAreHidden(t *testing.T) {
	object := func(fields map[string]any) []runtime.Object {
		return []runtime.Object{&unstructured.Unstructured{Object: fields}}
	}
	var live mask.Mask
	addLive(&live, &rel1.Release{Info: &rel1.Info{Resources: map[string][]runtime.Object{
		"v1/Secret":       object(map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"a": "aHVudGVyMmFiYw=="}}),
		"v1/ConfigMap":    object(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"b": "Server=x;Pwd=tr0ub4dor"}}),
		"v1/Pod(related)": object(map[string]any{"apiVersion": "v1", "kind": "PodList", "items": []any{map[string]any{"args": []any{"--token=c0rrectH0rse"}}}}),
	}}})
	const text = "aHVudGVyMmFiYw== hunter2abc Server=x;Pwd=tr0ub4dor --token=c0rrectH0rse of x"
	if got, want := live.Text(text), "(hidden) (hidden) Server=x;Pwd=(hidden) --token=(hidden) of x"; got != want {
		t.Error(got)
	}
}
