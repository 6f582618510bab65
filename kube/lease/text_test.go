package lease

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestLockedErrorSaysHowToFollow: attach finds only the user's own runs on this machine, and Jobs in the cluster (R51).
func TestLockedErrorSaysHowToFollow(t *testing.T) {
	self := newHolder(Params{Operation: "upgrade"})
	const attach = "lockstep attach r -n ns"
	for name, tt := range map[string]struct {
		holder Holder
		want   string // the end
	}{
		"own run":         {self, "try again when it has finished, or follow it with: " + attach},
		"own recover":     {newHolder(Params{Operation: "recover"}), "try again when it has finished"},
		"own stack":       {newHolder(Params{Operation: "upgrade", Stack: "fleet"}), "try again when it has finished, or follow it with: lockstep attach fleet"},
		"stack in a Job":  {Holder{Host: "pod", Job: "ops/lockstep-fleet", Stack: "fleet"}, "try again when it has finished, or follow it with: lockstep attach fleet -n ops"},
		"another user":    {Holder{User: "someone else", Host: self.Host}, "try again when it has finished, or follow it as someone else on " + self.Host + " with: " + attach},
		"another machine": {Holder{User: "ann", Host: "elsewhere"}, "try again when it has finished, or follow it as ann on elsewhere with: " + attach},
		"a Job":           {Holder{User: "ann", Host: "pod", Job: "ns/r-1"}, "try again when it has finished, or follow it with: " + attach},
		"another program": {Holder{User: "controller"}, "try again when it has finished"},
	} {
		got := (&LockedError{Lock{"r", "ns", tt.holder}}).Error()
		if !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestHolderNamesTheJob(t *testing.T) { // R51
	s := newStore()
	params := upgrade
	params.Job = "ns/r-1"
	l := acquire(t, s, params, Options{})
	defer release(t, l)
	if h := HolderOf(s.lease("r")); h != l.self || h.Job != params.Job {
		t.Errorf("holder %#v", h)
	}
}

// TestWarningSaysHowToLock: a missing permission can be granted; that does not help against a quota, or if the cluster serves no Leases (R51).
func TestWarningSaysHowToLock(t *testing.T) {
	for err, want := range map[error]bool{errDenied: true, errors.New("no such resource"): false, apierrors.NewForbidden(leasesResource, "l", errors.New("exceeded quota: few")): false,
		apierrors.NewForbidden(leasesResource, "l", errors.New("unable to create new content in namespace shop because it is being terminated")): false} {
		w := State{Status: Unavailable, Err: err}.Warning()
		if strings.Contains(w.Message, "lockstep rbac") != want {
			t.Errorf("%v: %s", err, w)
		}
	}
}
