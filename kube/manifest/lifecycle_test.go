package manifest

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestLifecycle reads deprecation, removal and replacement of versions from client-go's types.
func TestLifecycle(t *testing.T) {
	tests := map[schema.GroupVersionKind]struct {
		known      bool
		deprecated int // minor of 1
		removed    string
	}{
		{Group: "extensions", Version: "v1beta1", Kind: "Ingress"}:                      {true, 14, ": removed in Kubernetes 1.22; use networking.k8s.io/v1 Ingress"},
		{Group: "batch", Version: "v1beta1", Kind: "CronJob"}:                           {true, 21, ": removed in Kubernetes 1.25; use batch/v1 CronJob"},
		{Group: "autoscaling", Version: "v2beta1", Kind: "HorizontalPodAutoscaler"}:     {false, 0, ": removed in Kubernetes 1.25; use autoscaling/v2 HorizontalPodAutoscaler"},
		{Group: "autoscaling", Version: "v2beta2", Kind: "HorizontalPodAutoscaler"}:     {false, 0, ": removed in Kubernetes 1.26; use autoscaling/v2 HorizontalPodAutoscaler"},
		{Group: "policy", Version: "v1beta1", Kind: "PodSecurityPolicy"}:                {false, 0, ": removed in Kubernetes 1.25; use Pod Security Admission"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta1", Kind: "FlowSchema"}: {true, 23, ": removed in Kubernetes 1.26; use flowcontrol.apiserver.k8s.io/v1 FlowSchema"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}:                              {true, 0, ""},
		{Version: "v1", Kind: "ComponentStatus"}:                                        {true, 19, ""},
		{Version: "v1", Kind: "Endpoints"}:                                              {true, 33, ""},
		{Group: "example.com", Version: "v1", Kind: "Gear"}:                             {false, 0, ""},
		{Group: "policy", Version: "v1", Kind: "PodSecurityPolicy"}:                     {false, 0, ""},
	}
	for gvk, tt := range tests {
		l, known := LifecycleOf(gvk)
		if known != tt.known || l.DeprecatedMinor != tt.deprecated || RemovalHint(gvk) != tt.removed {
			t.Errorf("%s: known %v, %+v, %q", gvk, known, l, RemovalHint(gvk))
		}
	}
}
