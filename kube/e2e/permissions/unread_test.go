package permissions

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/faultproxy"
)

// operations are those that first read the release records.
var operations = map[string]func(*rig.Rig) (*kube.Operation, error){
	"install": func(r *rig.Rig) (*kube.Operation, error) { return r.Install("plain", nil) },
	"upgrade": func(r *rig.Rig) (*kube.Operation, error) { return r.Upgrade("plain", nil) },
	"upgrade --install": func(r *rig.Rig) (*kube.Operation, error) {
		return r.Upgrade("plain", func(u *kube.Deploy) { u.Install = true })
	},
	"plan": func(r *rig.Rig) (*kube.Operation, error) {
		return r.Upgrade("plain", func(u *kube.Deploy) { u.PlanOnly, u.Install = true, true })
	},
	"rollback":  func(r *rig.Rig) (*kube.Operation, error) { return r.Rollback(0) },
	"uninstall": func(r *rig.Rig) (*kube.Operation, error) { return r.Uninstall() },
	"recover": func(r *rig.Rig) (*kube.Operation, error) {
		_, err := r.Client.Recover(r.T.Context(), r.Common())
		return nil, err
	},
}

// TestUnreadableRecords: every operation of a user who may not read the release records is refused, whether the release
// exists or not. Unreadable records never count as absent.
func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	rules := append(namespaceRules("*"), rig.Rule("", "configmaps,services,persistentvolumeclaims", "*"))
	rules[0] = rig.Rule("", "secrets", "create", "update", "patch", "delete", "watch")
	few := r.WithClient(r.ConnectAs("few", rules...))
	for _, exists := range []bool{false, true} {
		if exists {
			r.Deploy("plain", nil)
		}
		before := len(r.Writes())
		for name, prepare := range operations {
			op, err := prepare(few)
			if op != nil || err == nil || !strings.Contains(err.Error(), "secrets [list] (to list the revisions of the release)") {
				t.Errorf("%s, release exists %v: prepared %v, error %v", name, exists, op != nil, err)
			}
		}
		if w := r.Writes()[before:]; len(w) > 0 {
			t.Errorf("release exists %v: written %v", exists, w)
		}
	}
	if got := r.Status(); got != rcommon.StatusDeployed {
		t.Errorf("the release is %s", got)
	}
}

// TestRecordsForbiddenOnce prepares operations while a single request for the records is forbidden, as right after a
// RoleBinding was created. The operation is refused: a later response must not hide the error.
func TestRecordsForbiddenOnce(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	for _, exists := range []bool{false, true} {
		if exists {
			r.Deploy("plain", nil)
		}
		for name, prepare := range operations {
			var refused atomic.Bool
			c := r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
				if req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, "/secrets") || refused.Swap(true) {
					return false
				}
				faultproxy.Refuse(w, http.StatusForbidden, string(metav1.StatusReasonForbidden), "secrets is forbidden for a moment")
				return true
			}}, "")
			op, err := prepare(r.WithClient(c))
			if op != nil || err == nil || !strings.Contains(err.Error(), "secrets is forbidden for a moment") {
				t.Errorf("%s, release exists %v: prepared %v, error %v", name, exists, op != nil, err)
			}
		}
	}
}
