package stack

import (
	"bytes"
	"net/http"
	"testing"

	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/auditlog"
	"lockstep/kube/throwaway/testcluster"
)

// TestPermissionsOfAStack deploys and removes a stack as a ServiceAccount with the roles that lockstep rbac prints. Only requests
// without a namespace may be refused: lockstep first tries to watch all namespaces, and to read kube-system (S10).
func TestPermissionsOfAStack(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	releases := []release{{Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}, {Name: "a", Dir: chart(t, "a")}}
	planned, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.PlanOnly, o.Common.SkipPreflight = true, true }, releases...)
	if err != nil {
		t.Fatal(err)
	}
	var ops []*kube.Operation
	for _, rel := range planned.Releases() {
		ops = append(ops, rel.Operation)
	}
	planned.Close()
	var text bytes.Buffer
	if err := kube.WriteRoles(&text, kube.Roles{Account: "lockstep", Namespace: b.Namespace, Name: "stack"}, ops...); err != nil {
		t.Fatal(err)
	}
	rig.Sandbox.Apply(t, testcluster.Parse(t, text.String())...)
	account := b.ConnectAsServiceAccount("lockstep")
	b.connect = func(string) (*kube.Client, error) { return account, nil }
	for _, down := range []bool{false, false, true} {
		s, err := b.prepare(down, nil, releases...)
		if state, _ := b.run(s, err, nil); state.Exit != 0 {
			t.Fatalf("down %v: exit %d: %s", down, state.Exit, phrase.Reason(state))
		}
	}
	log := b.Log()
	for _, e := range log.Where(func(e auditlog.Event) bool { return e.Username == "system:serviceaccount:"+b.Namespace+":lockstep" }) {
		if e.Code == http.StatusForbidden && e.Object.Namespace != "" && e.Object.Name != "kube-system" {
			t.Errorf("refused: %s %s", e.Verb, e.RequestURI)
		}
	}
}
