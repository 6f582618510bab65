package preflight

import "lockstep/engine/plan"

// checkJobs warns about suspended Jobs that must complete: they have no pods, so they never do (R22).
func (planned *plannedObjects) checkJobs() (warnings []plan.Warning) {
	for _, o := range planned.objects {
		spec, _ := o.fields["spec"].(map[string]any)
		if suspended, _ := spec["suspend"].(bool); suspended && o.IsJob() && (o.hook || o.position.group.JobsComplete) {
			warnings = append(warnings, o.warning("%s is suspended, so it does not complete until something resumes it; the run waits for that; "+
				"remove spec.suspend, or pass --wait-for-jobs=false", o))
		}
	}
	return warnings
}
