package run

import (
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func TestGroupsThatStartTogetherAreAppliedKindByKind(t *testing.T) { // R15a
	crd := plan.Object{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "crd"}
	tests := []struct {
		name   string
		groups []string
		change func([]*plan.Group)
		kind   event.PhaseKind
		script map[string]behaviour
		order  string
	}{
		{
			name:   "the parent's ServiceAccount is applied before the subchart's Pod",
			groups: []string{"sub: Secret/s, Pod/p", "parent: ServiceAccount/a, Deployment/d"},
			order:  "ServiceAccount/a Secret/s Pod/p Deployment/d",
		},
		{
			name:   "a slow request delays later kinds of all groups",
			groups: []string{"a: ConfigMap/c, Pod/p", "b: Service/s, Job/j"}, script: map[string]behaviour{"c": {request: sec}},
			order: "ConfigMap/c Service/s Pod/p Job/j",
		},
		{
			name:   "an object with install-before is ordered among all groups",
			groups: []string{"a: Job/early, Secret/s", "b: Namespace/n, ConfigMap/t"},
			order:  "Namespace/n Job/early Secret/s ConfigMap/t",
		},
		{
			name:   "a group that waits for its CRD does not delay the others (R17)",
			groups: []string{"a: CustomResourceDefinition/crd, Gateway/g", "b: Ingress/i, Widget/w"},
			change: func(groups []*plan.Group) {
				groups[0].Objects[0] = crd
				groups[0].Waves[1].Established = []plan.Object{crd}
			},
			script: map[string]behaviour{"crd": {ready: sec}},
			order:  "CustomResourceDefinition/crd Ingress/i Widget/w Gateway/g",
		},
		{
			name:   "a failed group does not delay the others",
			groups: []string{"a: Secret/s, ConfigMap/c", "b: Pod/p"}, script: map[string]behaviour{"s": {err: errDenied, request: sec}},
			order: "Secret/s Pod/p",
		},
		{
			name:   "a group that starts later is not ordered with the others",
			groups: []string{"a: Secret/s", "b: Job/j, Job/k", "c < a: Namespace/n"}, script: map[string]behaviour{"s": {ready: sec}, "j": {request: 2 * sec}},
			order: "Secret/s Job/j Namespace/n Job/k",
		},
		{
			name: "removals use the reverse order", kind: event.PhaseRemove,
			groups: []string{"a: Pod/p, Secret/s", "b: Deployment/d, ServiceAccount/a"},
			order:  "Deployment/d Pod/p Secret/s ServiceAccount/a",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			groups := groupsOf(tt.groups...)
			if tt.change != nil {
				tt.change(groups)
			}
			phase := event.Phase{Name: "it", Kind: event.PhaseApply, Groups: groups}
			if tt.kind != "" {
				phase.Kind = tt.kind
			}
			fake := newFake(tt.script)
			run(t, Options{}, Stage{Phase: phase}, fake, nil)
			if got := strings.Join(fake.order, " "); got != tt.order {
				t.Errorf("order %s, want %s", got, tt.order)
			}
		})
	}
}

// TestAFailedGroupDoesNotDelayOthers: groups that started with it continue as soon as it fails, even
// if it is retried or its other requests have no answer yet (R15a, R26).
func TestAFailedGroupDoesNotDelayOthers(t *testing.T) {
	t.Run("retried", func(t *testing.T) {
		fake := newFake(map[string]behaviour{"s": {err: errDenied, untilTry: 1, request: 3 * sec}, "c": {request: 4 * sec}})
		s := Stage{Phase: event.Phase{Groups: groupsOf("a: Secret/s", "b: ConfigMap/c, Pod/p")}}
		trace, err := run(t, Options{HoldOnFailure: true}, s, fake, func(b *rig) {
			b.at(5 * sec)
			b.command(event.Retry, "")
		})
		if err != nil {
			t.Error(err)
		}
		denied := "Secret/s: " + errDenied.Error()
		want(t, trace, "0.0s c:a running", "0.0s c:b running", "3.0s c:a failed ("+denied+")", "3.0s run held (c:a: "+denied+")",
			"5.0s run running", "5.0s c:a running", "5.0s retry accepted", "7.0s c:b ready", "8.0s c:a ready")
	})
	t.Run("with a request in flight", func(t *testing.T) {
		fake := newFake(map[string]behaviour{"s": {failed: "broken"}, "z": {request: sec, blocked: -1}})
		trace, _ := run(t, Options{}, Stage{Phase: event.Phase{Groups: groupsOf("a: Secret/s Secret/z", "b: Pod/p")}}, fake, nil)
		want(t, trace, "0.0s c:a running", "0.0s c:b running", "0.0s c:a failed (Secret/s: broken)", "0.0s c:b ready")
	})
}
