package view

import (
	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/cluster"
)

// Expired is the message of a Job that the cluster has probably deleted after it had finished.
const Expired = "result unknown; probably deleted by ttlSecondsAfterFinished"

// absent returns the status of an object that is not in the cluster. A Job that the cluster deletes after it has finished is
// expected to be gone; a failure that was observed before stays.
func (v *View) absent(g *group, o plan.Object) (event.Status, string) {
	info, expires := v.revision.rel.Info, v.revision.expiring[o]
	release := info.Status
	switch result := v.result(g, o); {
	case !info.Deleted.IsZero() && release != rcommon.StatusDeployed: // by an uninstall, which may have failed
		return event.Gone, ""
	case result == event.Ready:
		return event.Gone, "it was ready before; probably deleted by ttlSecondsAfterFinished"
	case result != "":
		return result, g.last[o].Message
	case expires && cluster.HasRun(release):
		return event.Gone, Expired
	case expires && release == rcommon.StatusFailed:
		return event.Waiting, event.NotCreated + ", or deleted by ttlSecondsAfterFinished"
	case release.IsPending():
		return event.Waiting, "not in the cluster yet"
	case release == rcommon.StatusFailed && v.revision.ran[g.ID] == "":
		return event.Waiting, event.NotCreated
	case release == rcommon.StatusFailed && !v.revision.reached(g.ID):
		return event.Waiting, event.NotCreated + ", or deleted since"
	case release == rcommon.StatusFailed && v.number != 0: // perhaps by a newer revision
		return event.Gone, "deleted since"
	case release == rcommon.StatusSuperseded:
		return event.Gone, "a newer revision may have removed it"
	}
	return event.Failed, "not in the cluster"
}

// reached reports whether all objects of a group existed when the revision was deployed.
func (r *revision) reached(group string) bool {
	return r.ran[group] == event.Ready || r.ran[group] == event.Applied
}

// mayBeGone returns the objects that are expected to be absent although nothing is wrong: the Jobs that the cluster deletes, and
// all objects of a superseded revision.
func (r *revision) mayBeGone() map[plan.Object]bool {
	if r.rel.Info.Status != rcommon.StatusSuperseded {
		return r.expiring
	}
	all := map[plan.Object]bool{}
	for _, o := range event.Objects(r.phases) {
		all[o] = true
	}
	return all
}

// result returns the status of a Job that the cluster deletes after it has finished, if it was ready, failed or gone when
// it was last observed; else "".
func (v *View) result(g *group, o plan.Object) event.Status {
	if !v.revision.expiring[o] || !g.fresh[o] {
		return ""
	}
	switch status := g.last[o].Status; status {
	case event.Ready, event.Failed, event.Gone:
		return status
	}
	return ""
}
