package plan

import "slices"

// Jobs says which Jobs are ready only when they are complete, apart from those in layers (R18): the value of --wait-for-jobs.
// Other Jobs are ready once they have started.
type Jobs string

const (
	AwaitedJobs Jobs = ""      // those of groups that another group waits for
	AllJobs     Jobs = "true"  // all of them
	StartedJobs Jobs = "false" // none, as HIP-0025 specifies
)

// IsJob reports whether an object is a Job. A CronJob is not one.
func (o Object) IsJob() bool { return o.Group == "batch" && o.Kind == "Job" }

// HasJobs reports whether the group has Jobs.
func (g *Group) HasJobs() bool { return slices.ContainsFunc(g.Objects, Object.IsJob) }

// Complete sets JobsComplete of each group. The groups must be a whole graph, with the hooks that AroundSubcharts adds.
//
// A Job that another group waits for is ready when it is complete (R22). So is one of a group that is a point of no return: one that
// has only started has passed nothing (R33a).
func (j Jobs) Complete(groups []*Group) {
	awaited := dependenciesOf(groups)
	for _, g := range groups {
		g.JobsComplete = g.layered || g.HasJobs() && (g.NoReturn != "" || j == AllJobs || j == AwaitedJobs && awaited[g.ID])
	}
}
