package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// compare returns the differences between the namespaces once deletions are complete.
func (l *twinRelease) compare(over bool) (wrong []string) {
	within(context.Background(), settleTimeout, func() bool {
		ours, helms := l.state(l.ours), l.state(l.helms)
		wrong = append(recordDifferences(ours.records, helms.records), l.crdDifferences()...)
		if !l.diverged {
			wrong = append(wrong, l.objectDifferences(ours, helms, over)...)
		}
		return len(wrong) == 0
	})
	return wrong
}

// objectDifferences returns the differences between objects. lockstep deletes objects of a failed revision, or of one
// before it, that the target does not have (R32a). Helm compares only with the last revision and keeps them, so
// objectDifferences deletes them in Helm's namespace, and in lockstep's those that only lockstep keeps (leftBehind, taken).
func (l *twinRelease) objectDifferences(ours, helms releaseState, over bool) (wrong []string) {
	for _, id := range slices.Sorted(maps.Keys(helms.objects)) {
		if o, ok := ours.objects[id]; ok {
			found := differences(id, comparableFields(o), comparableFields(helms.objects[id]))
			if len(found) > 0 && over && broughtBack(ours.records, id) {
				l.logf("delete %s, in which Helm does not keep the fields of others (R32a)", id)
				l.delete(o)
				l.delete(helms.objects[id])
				continue
			}
			wrong = append(wrong, found...)
			continue
		}
		if over && inFailedRevision(ours.records, id) {
			l.logf("delete %s, which Helm keeps (R32a)", id)
			l.delete(helms.objects[id])
			continue
		}
		wrong = append(wrong, id+" is missing")
	}
	for _, id := range slices.Sorted(maps.Keys(ours.objects)) {
		if _, ok := helms.objects[id]; ok {
			continue
		}
		if over && (ours.leftBehind(id) || l.taken[id]) {
			l.logf("delete %s, which Helm deletes (R31a)", id)
			l.delete(ours.objects[id])
			continue
		}
		wrong = append(wrong, id+" was not deleted")
	}
	return wrong
}

// broughtBack reports whether the last revision is a rollback that has an object which the revision before it lacked, applied
// client-side.
func broughtBack(all []releaseRecord, id string) bool {
	n := len(all)
	return n > 1 && all[n-1].Info.RollbackRevision > 0 && all[n-1].Method == "csa" && all[n-1].object(id) != "" && all[n-2].object(id) == ""
}

func (l *twinRelease) delete(o unstructured.Unstructured) {
	err := admin.Resource(twinResources[o.GetKind()]).Namespace(o.GetNamespace()).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		l.harness.check(err)
	}
}

func recordDifferences(ours, helms []releaseRecord) (wrong []string) {
	history := func(all []releaseRecord) (out []string) {
		for _, r := range all {
			out = append(out, fmt.Sprintf("%d %s", r.Version, r.Info.Status))
		}
		return out
	}
	helms = slices.Clone(helms)
	for i := range min(len(ours), len(helms)) {
		// Until a revision is deployed, lockstep keeps each attempt as failed (R50). Helm's upgrade marks the previous
		// one superseded.
		if ours[i].Info.Status != "failed" {
			break
		}
		if helms[i].Info.Status == "superseded" {
			helms[i].Info.Status = "failed"
		}
	}
	if a, b := history(ours), history(helms); !slices.Equal(a, b) {
		return []string{fmt.Sprintf("the history is %q, with helm %q", a, b)}
	}
	for i, r := range ours {
		if r.Manifest != helms[i].Manifest {
			wrong = append(wrong, fmt.Sprintf("the manifest of revision %d differs: %s", r.Version, firstDifference(r.Manifest, helms[i].Manifest)))
		}
	}
	return wrong
}
